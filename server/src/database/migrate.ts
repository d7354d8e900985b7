/**
 * Numbered forward-only migrations, each in its own transaction, under one advisory lock: any number of services may
 * start at once; one migrates, the others wait and find nothing left to do.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { OperatorError } from '../errors.ts'
import type { Database, Queryable } from './database.ts'
import {
  DEADLOCK,
  isDatabaseError,
  LOCK_NOT_AVAILABLE,
  lockForTransaction,
  NO_PRIVILEGE,
  script,
  sql,
} from './database.ts'

const FOLDER = new URL('./migrations/', import.meta.url)

interface Migration {
  number: number
  name: string
  text: string
  checksum: string
}

export async function readMigrations(): Promise<Migration[]> {
  const files = (await readdir(FOLDER)).filter((file) => /^\d{4}-.+\.sql$/.test(file)).sort()
  return Promise.all(
    files.map(async (file) => {
      const text = await readFile(new URL(file, FOLDER), 'utf8')
      return {
        number: Number(file.slice(0, 4)),
        name: file,
        text,
        checksum: createHash('sha256').update(text).digest('hex'),
      }
    }),
  )
}

/** An ALTER that waits for a long reader blocks everyone behind it. So it waits briefly, and tries again. */
const LOCK_WAIT = '2s'
const PAUSE_MS = 1000
const TRIES = 120
/** Building an index on a large table takes time. */
const ANSWER_MS = 6 * 3600 * 1000

/** Up to a number, or all of them. */
export async function migrate(
  db: Database,
  onWait: (message: string) => void = () => {},
  upTo = Number.POSITIVE_INFINITY,
): Promise<number> {
  const migrations = (await readMigrations()).filter(({ number }) => number <= upTo)
  const current = await isCurrent(db, migrations).catch(async (error: Error) => {
    throw isDatabaseError(error, NO_PRIVILEGE) ? await explainUnreadable(db, error) : error
  })
  if (current) return 0
  let applied = 0
  for (const migration of migrations) applied += await applyWhenFree(db, migration, onWait)
  await refuseNewer(db, migrations)
  return applied
}

async function applyWhenFree(db: Database, migration: Migration, onWait: (message: string) => void): Promise<number> {
  for (let tries = 1; ; tries++) {
    try {
      return await db.transaction((tx) => apply(tx, migration))
    } catch (error) {
      if (isDatabaseError(error, NO_PRIVILEGE)) throw await explainMissingRight(db, migration, error as Error)
      const inTheWay = isDatabaseError(error, LOCK_NOT_AVAILABLE) || isDatabaseError(error, DEADLOCK)
      if (!inTheWay || tries === TRIES) throw error
      if (tries === 1)
        onWait(`${migration.name} waits for a lock that another session holds; trying again every second`)
      await delay(PAUSE_MS)
    }
  }
}

/** 1, or 0 if it was applied before. */
async function apply(tx: Queryable, migration: Migration): Promise<number> {
  await tx.execute(script(`SET LOCAL lock_timeout = '${LOCK_WAIT}'; SET LOCAL statement_timeout = 0`))
  await lockForTransaction(tx, 'sluice migrations')
  await tx.execute(
    script(`CREATE TABLE IF NOT EXISTS schema_migrations (
      number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`),
  )
  const known = await tx.first<{ checksum: string }>(
    sql`SELECT checksum FROM schema_migrations WHERE number = ${migration.number}`,
  )
  if (known) {
    if (known.checksum !== migration.checksum)
      throw new OperatorError(
        `Migration ${migration.name} was changed after it had been applied; restore it, and add a new migration instead.`,
      )
    return 0
  }
  await tx.execute(script(migration.text, ANSWER_MS))
  await tx.execute(
    sql`INSERT INTO schema_migrations (number, name, checksum) VALUES (${migration.number}, ${migration.name}, ${migration.checksum})`,
  )
  return 1
}

/** One sentence with the command that fixes it. */
async function explainMissingRight(db: Queryable, { name }: Migration, error: Error): Promise<OperatorError> {
  const who = await db.first<{ role: string; database: string; schema: string | null; owner: string | null }>(sql`
    SELECT quote_ident(current_user) AS role, quote_ident(current_database()) AS database, quote_ident(current_schema()) AS schema,
           (SELECT quote_ident(tableowner) FROM pg_tables WHERE tablename = 'runs' AND schemaname = current_schema()) AS owner`)
  const { role, database, schema, owner } = who!
  const help = /must be owner/.test(error.message)
    ? `GRANT ${owner ?? 'the owner of the tables'} TO ${role};`
    : schema === null
      ? `GRANT CREATE ON DATABASE ${database} TO ${role};`
      : `GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${role};`
  return new OperatorError(
    `The database user ${role} may not apply migration ${name} (${error.message}); as a superuser or the owner of the database run: ${help}`,
  )
}

/** The owner has migrated, and not given the role of the processes its rights yet. */
async function explainUnreadable(db: Queryable, error: Error): Promise<OperatorError> {
  const who = await db.first<{ role: string }>(sql`SELECT quote_ident(current_user) AS role`)
  return new OperatorError(
    `The database user ${who!.role} may not use the tables (${error.message}); as their owner run the GRANT statements of docs/operations.md, 'Rights in the database', for it.`,
  )
}

export interface Applied {
  number: number
  name: string
  checksum: string
}

/** Null for a database without any of our tables. */
export async function listApplied(db: Queryable): Promise<Applied[] | null> {
  const table = await db.first<{ there: boolean }>(sql`SELECT to_regclass('schema_migrations') IS NOT NULL AS there`)
  if (!table?.there) return null
  return db.query<Applied>(sql`SELECT number, name, checksum FROM schema_migrations ORDER BY number`)
}

async function isCurrent(db: Queryable, migrations: Migration[]): Promise<boolean> {
  const applied = await listApplied(db)
  if (applied === null) return false
  await refuseNewer(db, migrations)
  const rows = applied.filter(({ number }) => number <= lastOf(migrations))
  return rows.length === migrations.length && rows.every((row, index) => row.checksum === migrations[index]!.checksum)
}

const lastOf = (migrations: Migration[]): number => migrations.at(-1)?.number ?? 0

/**
 * A migration only adds, so that the version before it still works on the new schema: both run side by side during an
 * upgrade, and the older one can be started again. One that takes something away is named `NNNN-name.contract.sql`, and
 * older versions refuse to start after it.
 */
async function refuseNewer(db: Queryable, migrations: Migration[]): Promise<void> {
  const newer = await db.first<{ name: string }>(
    sql`SELECT name FROM schema_migrations WHERE number > ${lastOf(migrations)} AND name LIKE '%.contract.sql' ORDER BY number LIMIT 1`,
  )
  if (newer)
    throw new OperatorError(
      `The database was migrated by a newer Sluice (it has ${newer.name}); start that version or a later one.`,
    )
}
