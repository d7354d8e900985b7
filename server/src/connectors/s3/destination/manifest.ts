/**
 * The manifest of a target, `_manifest.json`: which objects it consists of. Readers go by it alone. It is one object, so what it
 * says changes at once: a run is in it whole or not at all.
 *
 * It is changed by compare and swap, on its ETag, and it names the last run of each pipeline that wrote: a worker that wakes
 * up after another has taken over its run, or after a newer run, finds that and stops. A store that knows no conditional
 * writes is told by its answer, and then only the lease of the run protects against such a worker.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { S3Error } from '../../../s3/client.ts'
import { readText } from '../../../s3/xml.ts'
import { type Column, ConnectorError, type RunLog } from '../../contract.ts'
import { isColumnType } from '../../types/column-types.ts'
import type { Bucket } from '../bucket.ts'
import { shorten } from '../failures.ts'

export interface ManifestObject {
  key: string
  run_id: string
  records: number
  bytes: number
}

/** A run that wrote to the target. */
export interface Writer {
  run_id: string
  seq: number
  attempt: number
  installation: string
}

export interface Manifest {
  /** The version of this format. */
  sluice: 1
  updated_at: string
  /** The last run of each pipeline, by its id. */
  writers: Record<string, Writer>
  /** Of csv and parquet objects, as of the last run. */
  columns: Column[] | null
  objects: ManifestObject[]
  /** What a replace has put out of use. These objects are deleted right after it. */
  replaced: string[]
}

const NAME = '_manifest.json'
/** Some 200 bytes for each object. */
const MOST_BYTES = 32 * 1024 * 1024
const MOST_OBJECTS = 100_000
const TRIES = 20

export interface FoundManifest {
  manifest: Manifest
  /** Null if there is none yet. */
  etag: string | null
}

const noManifest = (): Manifest => ({
  sluice: 1,
  updated_at: '',
  writers: {},
  columns: null,
  objects: [],
  replaced: [],
})

export async function readManifest(bucket: Bucket, target: string): Promise<FoundManifest> {
  const key = `${target}${NAME}`
  try {
    const answer = await bucket.open({ key })
    const manifest = parseManifest(await readText(answer.body, MOST_BYTES), key)
    return { manifest, etag: String(answer.headers.etag ?? '') }
  } catch (error) {
    if (error instanceof S3Error && error.status === 404) return { manifest: noManifest(), etag: null }
    throw bucket.explain(error, 'read', key)
  }
}

/** Somebody else may have written it. */
function parseManifest(text: string, key: string): Manifest {
  try {
    const given = JSON.parse(text) as Partial<Manifest>
    const { writers, objects, replaced, columns } = given
    const valid =
      given.sluice === 1 &&
      isObject(writers) &&
      Object.values(writers).every(isWriter) &&
      Array.isArray(objects) &&
      objects.every(isEntry) &&
      Array.isArray(replaced) &&
      replaced.every((each) => typeof each === 'string') &&
      (columns === null || (Array.isArray(columns) && columns.every(isColumn)))
    if (valid) return { ...noManifest(), ...given }
  } catch {
    // Reported below.
  }
  throw new ConnectorError(
    'destination',
    `The object '${shorten(key)}' is not a manifest of this version of Sluice; write to another folder, or remove it.`,
  )
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isWriter = (value: unknown): value is Writer =>
  isObject(value) &&
  typeof value.run_id === 'string' &&
  typeof value.seq === 'number' &&
  typeof value.attempt === 'number' &&
  typeof value.installation === 'string'

const isColumn = (value: unknown): value is Column =>
  isObject(value) && typeof value.name === 'string' && typeof value.type === 'string' && isColumnType(value.type)

const isEntry = (value: unknown): value is ManifestObject =>
  isObject(value) &&
  typeof value.key === 'string' &&
  typeof value.run_id === 'string' &&
  typeof value.records === 'number' &&
  typeof value.bytes === 'number'

interface Change {
  target: string
  pipeline_id: string
  writer: Writer
  log: RunLog
  /** Called again if another writer was faster. */
  apply(manifest: Manifest): Manifest
}

/** Changes the manifest and returns the new one. Throws if a newer attempt or run of the pipeline has written. */
export async function changeManifest(bucket: Bucket, change: Change): Promise<Manifest> {
  const { target, pipeline_id, writer } = change
  for (let tries = 1; ; tries++) {
    const { manifest, etag } = await readManifest(bucket, target)
    refuseNewer(manifest.writers[pipeline_id], writer)
    const writers = { ...manifest.writers, [pipeline_id]: writer }
    const next = { ...change.apply(manifest), writers, updated_at: new Date().toISOString() }
    if (next.objects.length > MOST_OBJECTS)
      throw new ConnectorError(
        'limit',
        `The manifest of '${shorten(target)}' would list more than ${MOST_OBJECTS} objects; write to a new folder, or replace.`,
      )
    if (await putManifest(bucket, next, etag, change)) return next
    if (tries === TRIES)
      throw new ConnectorError('destination', `Other runs keep changing the manifest of '${shorten(target)}'.`, {
        transient: true,
      })
    await delay(20 * tries * Math.random(), undefined, { signal: bucket.signal })
  }
}

/** A number is unique only within an installation: a restored database gives numbers out again. */
function refuseNewer(found: Writer | undefined, own: Writer): void {
  if (!found || found.installation !== own.installation) return
  const isNewer = found.run_id === own.run_id ? found.attempt > own.attempt : found.seq > own.seq
  if (isNewer) throw new ConnectorError('internal', 'This attempt was fenced: a newer one has written the manifest.')
}

/** False if the manifest has changed since it was read. */
async function putManifest(
  bucket: Bucket,
  manifest: Manifest,
  etag: string | null,
  { target, log }: Change,
): Promise<boolean> {
  const key = `${target}${NAME}`
  const body = JSON.stringify(manifest)
  const headers = { 'content-type': 'application/json' }
  const condition: Record<string, string> =
    etag === null ? { 'if-none-match': '*' } : etag === '' ? {} : { 'if-match': etag }
  try {
    await bucket.put(key, body, { ...headers, ...condition })
    return true
  } catch (error) {
    if (!(error instanceof S3Error)) throw error
    if (error.status === 412 || error.status === 409 || error.status === 404) return false
    if (error.status !== 501) throw bucket.explain(error, 'write', key)
    log.warn('The store knows no conditional writes, so two writers at the same time are not noticed.')
    await bucket.put(key, body, headers)
    return true
  }
}
