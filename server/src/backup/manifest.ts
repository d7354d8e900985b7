/**
 * What a backup consists of. `manifest.json` is written last, so a backup without it was never finished. All other files
 * are named in it with their size and checksum.
 */
import type { BlobStore } from '../blobs/blobs.ts'
import { OperatorError } from '../errors.ts'

const FORMAT = 1
const MANIFEST = 'manifest.json'
const LARGEST_MANIFEST = 64 * 1024 * 1024
export const BLOB_LIST = 'blobs.jsonl.zst'

export const tableFile = (table: string): string => `tables/${table}.copy.zst`
export const blobFile = (key: string): string => `blobs/${key}`

export interface StoredFile {
  bytes: number
  sha256: string
}

export interface TableCopy extends StoredFile {
  name: string
  columns: string[]
  rows: number
}

export interface Manifest {
  format: number
  sluice: string
  postgres: string
  /** The moment of the snapshot. */
  taken_at: string
  finished_at: string
  installation: string
  migrations: { number: number; name: string; checksum: string }[]
  tables: TableCopy[]
  sequences: { name: string; last_value: string | null }[]
  blobs: StoredFile & {
    count: number
    total_bytes: number
    /** Named by a row, but deleted before they were copied. */
    gone: string[]
  }
  /** Ids of the keys with which something in it is encrypted. The keys themselves are not in a backup. */
  key_ids: string[]
}

export const writeManifest = (store: BlobStore, manifest: Omit<Manifest, 'format'>): Promise<void> =>
  store.put(MANIFEST, Buffer.from(`${JSON.stringify({ format: FORMAT, ...manifest }, null, 1)}\n`))

export const hasManifest = async (store: BlobStore): Promise<boolean> => (await store.stat(MANIFEST)) !== null

export async function readManifest(store: BlobStore, place: string): Promise<Manifest> {
  const found = await store.stat(MANIFEST)
  if (found === null)
    throw new OperatorError(
      `${place} holds no finished backup: ${MANIFEST}, which is written last, is not there. Name another folder, or make the backup again.`,
    )
  if (found.size > LARGEST_MANIFEST) throw new OperatorError(`${place}: ${MANIFEST} is too large to be one of Sluice.`)
  const text = await readAll(store, MANIFEST)
  let manifest: Manifest
  try {
    manifest = JSON.parse(text) as Manifest
  } catch {
    throw new OperatorError(`${place}: ${MANIFEST} is damaged; the backup cannot be restored.`)
  }
  if (manifest.format !== FORMAT)
    throw new OperatorError(
      `${place}: the backup has the format ${JSON.stringify(manifest.format ?? null)}, and this Sluice reads ${FORMAT}; use the version that wrote it${manifest.sluice ? ` (${manifest.sluice})` : ''}.`,
    )
  return manifest
}

async function readAll(store: BlobStore, key: string): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of await store.read(key)) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}
