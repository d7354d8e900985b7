/**
 * Numbered forward-only migrations, each in its own transaction, under one advisory lock: any number of services may
 * start at once, one migrates and the others wait and find nothing left to do.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { OperatorError } from '../errors.ts'
import type { Database, Queryable } from './database.ts'
import { lockForTransaction, script, sql } from './database.ts'

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

export async function migrate(db: Database): Promise<number> {
  const migrations = await readMigrations()
  if (await isCurrent(db, migrations)) return 0
  let applied = 0
  for (const migration of migrations) {
    applied += await db.transaction(async (tx) => {
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
            `Migration ${migration.name} was changed after it had been applied; migrations only go forward, add a new one.`,
          )
        return 0
      }
      await tx.execute(script(migration.text))
      await tx.execute(
        sql`INSERT INTO schema_migrations (number, name, checksum) VALUES (${migration.number}, ${migration.name}, ${migration.checksum})`,
      )
      return 1
    })
  }
  await refuseNewer(db, migrations)
  return applied
}

async function isCurrent(db: Queryable, migrations: Migration[]): Promise<boolean> {
  const table = await db.first<{ there: boolean }>(sql`SELECT to_regclass('schema_migrations') IS NOT NULL AS there`)
  if (!table?.there) return false
  await refuseNewer(db, migrations)
  const rows = await db.query<{ checksum: string }>(sql`SELECT checksum FROM schema_migrations ORDER BY number`)
  return rows.length === migrations.length && rows.every((row, index) => row.checksum === migrations[index]!.checksum)
}

async function refuseNewer(db: Queryable, migrations: Migration[]): Promise<void> {
  const last = migrations.at(-1)?.number ?? 0
  const newer = await db.first<{ name: string }>(
    sql`SELECT name FROM schema_migrations WHERE number > ${last} ORDER BY number LIMIT 1`,
  )
  if (newer)
    throw new OperatorError(
      `The database was migrated by a newer Sluice (it has ${newer.name}); start that version or a later one.`,
    )
}
