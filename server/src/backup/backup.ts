/**
 * `sluice backup`: every table by COPY in one transaction, then the blobs that its rows name, while the service runs. The
 * transaction exports its snapshot and sees one moment; blobs never change once a row names them, and what cleanup deletes
 * before it was copied is reported. An interrupted backup is continued by running it again: tables are copied anew, blobs
 * that are there stay.
 */
import type pg from 'pg'
import { BlobNotFound, type BlobStore } from '../blobs/blobs.ts'
import { copyOut } from '../database/copy.ts'
import type { ConnectionSettings } from '../database/database.ts'
import { SEALED_COLUMNS } from '../database/key-rotation.ts'
import { columnList, listTables, openLongSession, quoted } from '../database/tables.ts'
import { OperatorError } from '../errors.ts'
import { VERSION } from '../version.ts'
import { copyBlob, linesOf, readCompressed, writeCompressed } from './files.ts'
import {
  BLOB_LIST,
  blobFile,
  hasManifest,
  type Manifest,
  type StoredFile,
  type TableCopy,
  tableFile,
  writeManifest,
} from './manifest.ts'

export interface BackupPlace {
  connection: ConnectionSettings
  blobs: BlobStore
  /** Where the backup goes, and what to call it. */
  store: BlobStore
  name: string
  say: (line: string) => void
}

const BLOBS_AT_ONCE = 4
const SAY_EVERY_MS = 5000

export async function takeBackup(place: BackupPlace): Promise<Omit<Manifest, 'format'>> {
  const { store, name, say } = place
  if (await hasManifest(store)) throw new OperatorError(`${name} already holds a finished backup; name another folder.`)
  const copied = await copyDatabase(place)
  say(`the database is copied; now ${copied.listed} blobs`)
  const blobs = await copyBlobs(place, copied.list)
  const { list, listed, ...rest } = copied
  const manifest = { ...rest, finished_at: new Date().toISOString(), blobs: { ...list, ...blobs } }
  await writeManifest(store, manifest)
  return manifest
}

async function copyDatabase({ connection, store, say }: BackupPlace) {
  const client = await openLongSession(connection)
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
    // Exported, so that an operator can look at the same moment with other tools while it lasts.
    const about = await one<{ taken_at: string; postgres: string; installation: string; snapshot: string }>(
      client,
      `SELECT to_char(now(), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS taken_at, current_setting('server_version') AS postgres,
              (SELECT id FROM installation) AS installation, pg_export_snapshot() AS snapshot`,
    )
    say(`snapshot ${about.snapshot} of ${about.taken_at}`)
    const tables: TableCopy[] = []
    for (const { name, columns } of await listTables(client)) {
      const { rows, ...file } = await copyTable(client, store, { name, columns })
      tables.push({ name, columns, rows, ...file })
      say(`${name}: ${rows} rows, ${inMegabytes(file.bytes)}`)
    }
    const { rows: migrations } = await client.query(
      'SELECT number, name, checksum FROM schema_migrations ORDER BY number',
    )
    const key_ids = await listKeyIds(client)
    const list = await writeBlobList(client, store)
    // Not part of a snapshot, so they are read last: a number too high is harmless, one too low is not.
    const { rows: sequences } = await client.query(
      'SELECT sequencename AS name, last_value::text FROM pg_sequences WHERE schemaname = current_schema() ORDER BY 1',
    )
    await client.query('COMMIT')
    const { taken_at, postgres, installation } = about
    return { sluice: VERSION, postgres, taken_at, installation, migrations, tables, sequences, key_ids, ...list }
  } finally {
    await client.end()
  }
}

async function copyTable(client: pg.Client, store: BlobStore, { name, columns }: { name: string; columns: string[] }) {
  let rows = 0
  async function* content(): AsyncGenerator<Buffer> {
    rows = yield* copyOut(client, `COPY ${quoted(name)} (${columnList(columns)}) TO STDOUT`)
  }
  const file = await writeCompressed(store, tableFile(name), content())
  return { rows, ...file }
}

async function listKeyIds(client: pg.Client): Promise<string[]> {
  const each = SEALED_COLUMNS.map(
    ({ table, column }) =>
      `SELECT encode(substr(${column}, 2, 4), 'hex') AS id FROM ${table} WHERE ${column} IS NOT NULL`,
  )
  const { rows } = await client.query<{ id: string }>(each.join(' UNION '))
  return rows.map(({ id }) => id).sort()
}

/** Blobs that rows of ended runs name. Those of unfinished runs are staged again after a restore. */
const NAMED_BLOBS = `
  SELECT json_build_object('key', b.key)::text FROM runs r CROSS JOIN LATERAL (
    SELECT part->>'key' AS key FROM jsonb_array_elements(coalesce(r.output_parts, '[]') || coalesce(r.quarantine_parts, '[]')) AS part
    UNION ALL SELECT r.log_key) b
   WHERE r.finished_at IS NOT NULL AND b.key IS NOT NULL`

async function writeBlobList(client: pg.Client, store: BlobStore): Promise<{ list: StoredFile; listed: number }> {
  let listed = 0
  async function* content(): AsyncGenerator<Buffer> {
    // In CSV with unusual quotes a line of JSON stays as it is.
    listed = yield* copyOut(client, `COPY (${NAMED_BLOBS}) TO STDOUT (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')`)
  }
  const list = await writeCompressed(store, BLOB_LIST, content())
  return { list, listed }
}

export async function* readBlobList(store: BlobStore, list: StoredFile): AsyncGenerator<string> {
  for await (const line of linesOf(readCompressed(store, BLOB_LIST, list)))
    yield (JSON.parse(line) as { key: string }).key
}

async function copyBlobs({ blobs, store, say }: BackupPlace, list: StoredFile) {
  const gone: string[] = []
  const progress = createProgress(say, 'blobs copied')
  await eachAtOnce(readBlobList(store, list), BLOBS_AT_ONCE, async (key) => {
    const size = await copyIfMissing(blobs, store, [key, blobFile(key)])
    if (size === null) gone.push(key)
    else progress.add(size)
  })
  progress.end()
  return { count: progress.count(), total_bytes: progress.bytes(), gone: gone.sort() }
}

/** The size of the blob; null if it does not exist any more. */
export async function copyIfMissing(from: BlobStore, to: BlobStore, keys: [string, string]): Promise<number | null> {
  const [source, target] = keys
  const [there, here] = await Promise.all([from.stat(source), to.stat(target)])
  if (there === null) return null
  if (here !== null && here.size === there.size) return here.size
  try {
    return (await copyBlob(from, to, keys)).size
  } catch (error) {
    if (error instanceof BlobNotFound) return null
    throw error
  }
}

export async function eachAtOnce<T>(
  items: AsyncIterable<T>,
  atOnce: number,
  act: (item: T) => Promise<void>,
): Promise<void> {
  const iterator = items[Symbol.asyncIterator]()
  // An async generator answers calls one after another, so the lanes may share it.
  const lane = async () => {
    for (let next = await iterator.next(); !next.done; next = await iterator.next()) await act(next.value)
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
}

export function createProgress(say: (line: string) => void, what: string) {
  let [count, bytes, saidAt] = [0, 0, Date.now()]
  const tell = () => say(`${count} ${what}, ${inMegabytes(bytes)}`)
  return {
    add(size: number) {
      count += 1
      bytes += size
      if (Date.now() - saidAt < SAY_EVERY_MS) return
      saidAt = Date.now()
      tell()
    },
    end: tell,
    count: () => count,
    bytes: () => bytes,
  }
}

const inMegabytes = (bytes: number): string => `${(bytes / 1024 / 1024).toFixed(1)} MB`

async function one<Row extends pg.QueryResultRow>(client: pg.Client, text: string): Promise<Row> {
  return (await client.query<Row>(text)).rows[0]!
}
