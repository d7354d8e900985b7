import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connectDatabase, type Database, sql } from '../../src/database/database.ts'
import { migrate, readMigrations } from '../../src/database/migrate.ts'
import { createEmptyDatabase } from '../harness/database.ts'

const migrations = await readMigrations()

async function withEmptyDatabase(work: (db: Database, connect: () => Database) => Promise<void>): Promise<void> {
  const empty = await createEmptyDatabase()
  const others: Database[] = []
  const connect = () => {
    const db = connectDatabase(empty.connection, 2, () => {})
    others.push(db)
    return db
  }
  try {
    await work(empty.db, connect)
  } finally {
    await Promise.all(others.map((db) => db.close()))
    await empty.drop()
  }
}

test('ten services that start at once migrate once', () =>
  withEmptyDatabase(async (db, connect) => {
    const applied = await Promise.all(Array.from({ length: 10 }, () => migrate(connect())))
    assert.equal(
      applied.reduce((sum, count) => sum + count),
      migrations.length,
    )
    const rows = await db.query<{ name: string }>(sql`SELECT name FROM schema_migrations ORDER BY number`)
    assert.deepEqual(
      rows.map(({ name }) => name),
      migrations.map(({ name }) => name),
    )
    assert.equal(await migrate(db), 0, 'a later start finds nothing to do')
  }))

test('a migration that was changed after it had been applied is refused', () =>
  withEmptyDatabase(async (db) => {
    await migrate(db)
    await db.execute(sql`UPDATE schema_migrations SET checksum = 'of another text' WHERE number = 1`)
    await assert.rejects(migrate(db), /0001-\S+ was changed after it had been applied/)
  }))

test('a database of a newer version is refused and left as it is', () =>
  withEmptyDatabase(async (db) => {
    await migrate(db)
    await db.execute(sql`INSERT INTO schema_migrations (number, name, checksum) VALUES (9999, '9999-future.sql', 'x')`)
    await assert.rejects(migrate(db), /migrated by a newer Sluice \(it has 9999-future\.sql\)/)
  }))

test('every migration has a number of its own', () => {
  const numbers = migrations.map(({ number }) => number)
  assert.deepEqual(numbers, [...new Set(numbers)])
})
