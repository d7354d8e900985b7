/**
 * `sluice restore`: a backup into an empty database. Blobs come first, then all rows in one transaction that ends with what
 * `sluice restored` does. Whatever interrupts it leaves an empty database, and running it again continues with the blobs
 * that are missing.
 */
import type pg from 'pg'
import type { BlobStore } from '../blobs/blobs.ts'
import { copyIn } from '../database/copy.ts'
import type { ConnectionSettings, Database, Queryable, Statement } from '../database/database.ts'
import { listApplied, migrate, readMigrations } from '../database/migrate.ts'
import { refuseWhileRunning } from '../database/running-roles.ts'
import { columnList, listTables, openLongSession, quoted } from '../database/tables.ts'
import { OperatorError } from '../errors.ts'
import { markRestoredIn, type Restored } from '../runs/restored.ts'
import { copyIfMissing, createProgress, eachAtOnce, readBlobList } from './backup.ts'
import { damaged, readCompressed } from './files.ts'
import { BLOB_LIST, blobFile, type Manifest, readManifest, tableFile } from './manifest.ts'

export interface RestorePlace {
  db: Database
  connection: ConnectionSettings
  blobs: BlobStore
  store: BlobStore
  name: string
  /** Ids of the keys that this installation has. */
  keyIds: readonly string[]
  /** Restore although what was encrypted cannot be read. */
  withoutKeys: boolean
  say: (line: string) => void
}

const BLOBS_AT_ONCE = 4
/** Their rows come with the migrations. */
const FILLED_BY_MIGRATIONS = new Set(['installation'])

export async function restoreBackup(place: RestorePlace): Promise<Restored & { rows: number; manifest: Manifest }> {
  const { db, store, name, say } = place
  await refuseWhileRunning(db)
  const manifest = await readManifest(store, name)
  requireKeys(place, manifest)
  await requireFiles(store, manifest)
  await prepareSchema(db, manifest, name)
  await requireEmpty(db, manifest)
  say(`backup of ${manifest.taken_at}, made by Sluice ${manifest.sluice}`)
  await restoreBlobs(place, manifest)
  const restored = await restoreRows(place, manifest)
  await migrate(db, say)
  return { ...restored, manifest }
}

function requireKeys({ keyIds, withoutKeys, say }: RestorePlace, { key_ids }: Manifest): void {
  const missing = key_ids.filter((id) => !keyIds.includes(id))
  if (missing.length === 0) return
  const which = `${missing.length === 1 ? 'the key' : 'the keys'} ${missing.join(', ')}`
  if (!withoutKeys)
    throw new OperatorError(
      `The backup is encrypted with ${which}, which ENCRYPTION_KEY does not have; add the key of the installation that was backed up (with the embedded database: encryption_key in its secrets.json), or pass --without-keys and enter all credentials again.`,
    )
  say(`without ${which}: what is encrypted with it has to be entered again`)
}

/** A cheap look before anything is changed; checksums are verified as the files are read. */
async function requireFiles(store: BlobStore, { tables, blobs }: Manifest): Promise<void> {
  const files = [
    ...tables.map((table) => ({ key: tableFile(table.name), bytes: table.bytes })),
    { key: BLOB_LIST, bytes: blobs.bytes },
  ]
  for (const { key, bytes } of files) {
    const found = await store.stat(key)
    if (found === null) throw damaged(key, 'it is missing')
    if (found.size !== bytes) throw damaged(key, `it has ${found.size} bytes instead of ${bytes}`)
  }
}

/** The schema of the backup: a database without tables gets it, any other must have it already. */
async function prepareSchema(db: Database, { migrations, sluice }: Manifest, name: string): Promise<void> {
  const known = new Map((await readMigrations()).map(({ number, checksum }) => [number, checksum]))
  const strange = migrations.find(({ number, checksum }) => known.get(number) !== checksum)
  if (strange)
    throw new OperatorError(
      `${name} was made by Sluice ${sluice} with the migration ${strange.name}, which this version does not have; restore it with that version.`,
    )
  if ((await listApplied(db)) === null) await migrate(db, () => {}, migrations.at(-1)?.number ?? 0)
  const applied = (await listApplied(db)) ?? []
  const differs =
    applied.length !== migrations.length || applied.some(({ number }, index) => number !== migrations[index]!.number)
  if (differs)
    throw new OperatorError(
      `The schema of the database (${applied.at(-1)?.name ?? 'none'}) is not that of the backup (${migrations.at(-1)?.name ?? 'none'}); restore into a new database without tables, which gets the schema of the backup first.`,
    )
}

async function requireEmpty(db: Queryable, { tables }: Manifest): Promise<void> {
  const text = tables
    .filter(({ name }) => !FILLED_BY_MIGRATIONS.has(name))
    .map(({ name }) => `SELECT '${name}' AS name WHERE EXISTS (SELECT 1 FROM ${quoted(name)})`)
    .join(' UNION ALL ')
  const full = await db.query<{ name: string }>(plain(text))
  if (full.length > 0)
    throw new OperatorError(
      `The database is not empty (rows in ${full
        .map(({ name }) => name)
        .slice(0, 5)
        .join(', ')}); restore into a new one. Nothing was changed.`,
    )
}

async function restoreBlobs({ store, blobs, say }: RestorePlace, manifest: Manifest): Promise<void> {
  const gone = new Set(manifest.blobs.gone)
  const progress = createProgress(say, 'blobs restored')
  await eachAtOnce(readBlobList(store, manifest.blobs), BLOBS_AT_ONCE, async (key) => {
    if (gone.has(key)) return
    const size = await copyIfMissing(store, blobs, [blobFile(key), key])
    if (size === null) throw damaged(blobFile(key), 'it is missing')
    progress.add(size)
  })
  progress.end()
}

async function restoreRows(
  { db, connection, store, say }: RestorePlace,
  manifest: Manifest,
): Promise<Restored & { rows: number }> {
  const client = await openLongSession(connection)
  const copies = new Map(manifest.tables.map((table) => [table.name, table]))
  let rows = 0
  try {
    const tables = await listTables(client)
    await client.query('BEGIN')
    // A role that starts meanwhile waits, and finds a complete database or none.
    await client.query(`LOCK TABLE ${tables.map(({ name }) => quoted(name)).join(', ')} IN ACCESS EXCLUSIVE MODE`)
    const tx = asQueryable(client)
    await refuseWhileRunning(db)
    await requireEmpty(tx, manifest)
    for (const name of FILLED_BY_MIGRATIONS) await client.query(`DELETE FROM ${quoted(name)}`)
    // They keep sums and summaries, which are in the backup themselves.
    for (const { name } of tables) await client.query(`ALTER TABLE ${quoted(name)} DISABLE TRIGGER USER`)
    for (const { name } of tables) {
      const copy = copies.get(name)
      if (!copy) continue
      const text = `COPY ${quoted(name)} (${columnList(copy.columns)}) FROM STDIN`
      const taken = await copyIn(client, text, readCompressed(store, tableFile(name), copy))
      if (taken !== copy.rows) throw damaged(tableFile(name), `it has ${taken} rows instead of ${copy.rows}`)
      rows += taken
      say(`${name}: ${taken} rows`)
    }
    for (const { name } of tables) await client.query(`ALTER TABLE ${quoted(name)} ENABLE TRIGGER USER`)
    for (const { name, last_value } of manifest.sequences)
      if (last_value !== null) await client.query('SELECT setval($1::regclass, $2)', [quoted(name), last_value])
    const restored = await markRestoredIn(tx)
    await client.query('COMMIT')
    await client.query('ANALYZE').catch(() => {})
    return { ...restored, rows }
  } finally {
    await client.end()
  }
}

const plain = (text: string): Statement => ({ text, values: [], name: '' })

const asQueryable = (client: pg.Client): Queryable => {
  const run = ({ text, values }: Statement) => client.query({ text, values: values as unknown[] })
  return {
    query: async <Row>(statement: Statement) => (await run(statement)).rows as Row[],
    first: async <Row>(statement: Statement) => ((await run(statement)).rows[0] as Row | undefined) ?? null,
    execute: async (statement) => (await run(statement)).rowCount ?? 0,
  }
}
