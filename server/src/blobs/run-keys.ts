/**
 * Where the blobs of a run lie: `<organization>/runs/<run>/`, and under it parts, a converted output and the log. Every path
 * of a run is made here, so that what one process writes another finds, and so that a tenant's blobs never leave their prefix.
 */
export interface RunIdentity {
  id: string
  organization_id: string
}

export const runsPrefix = (organizationId: string): string => `${organizationId}/runs/`

export const runPrefix = (run: RunIdentity): string => `${runsPrefix(run.organization_id)}${run.id}/`

/** The name of an output, as the API shows it. The bytes lie in the parts that the run's row lists. */
export const outputPath = (run: RunIdentity, extension: string): string => `${runPrefix(run)}output.${extension}`

export const logKey = (run: RunIdentity): string => `${runPrefix(run)}log.json.gz`

/** Parts lie flat under the run's own prefix; nothing else there is one, nor is anything of another run. */
export function isOwnPart(run: RunIdentity, key: unknown): boolean {
  const prefix = runPrefix(run)
  return typeof key === 'string' && key.startsWith(prefix) && /^[\w-]+\.part$/.test(key.slice(prefix.length))
}
