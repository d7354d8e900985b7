/**
 * The blob keys of a run: `<organization>/runs/<run>/`, with parts, a converted output and the log below it. Every key
 * of a run is built here, so that processes agree on them, and a tenant's blobs never leave their prefix.
 */
export interface RunIdentity {
  id: string
  organization_id: string
}

export const runsPrefix = (organizationId: string): string => `${organizationId}/runs/`

export const runPrefix = (run: RunIdentity): string => `${runsPrefix(run.organization_id)}${run.id}/`

/** The name of an output, as the API shows it. The bytes are in the parts that the run's row lists. */
export const outputPath = (run: RunIdentity, extension: string): string => `${runPrefix(run)}output.${extension}`

export const logKey = (run: RunIdentity): string => `${runPrefix(run)}log.json.gz`

/** The key of an output that a conversion wrote, which replaces the stage. Compressed, it gets the ending of a part. */
export const convertedKey = (prefix: string, attempt: number): string => `${prefix}${attempt}-output.part`

/** The key of a part of the quarantine. */
export const quarantineKey = (prefix: string, attempt: number, number: number): string =>
  `${prefix}${attempt}-q${number}.part`

export const isConverted = (key: string): boolean => /-output\.part(\.zst)?$/.test(key)

const PART_NAME = /^[\w-]+\.part(\.zst)?$/

export const isPartKey = (key: string): boolean => PART_NAME.test(key.slice(key.lastIndexOf('/') + 1))

/** Parts are directly under the run's own prefix; nothing else is a part. */
export function isOwnPart(run: RunIdentity, key: unknown): boolean {
  const prefix = runPrefix(run)
  return typeof key === 'string' && key.startsWith(prefix) && PART_NAME.test(key.slice(prefix.length))
}
