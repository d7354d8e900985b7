import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import {
  type ConnectionSettings,
  connectDatabase,
  type Database,
  DEADLOCK,
  script,
  sql,
} from '../../src/database/database.ts'
import { migrate, readMigrations } from '../../src/database/migrate.ts'
import { OperatorError } from '../../src/errors.ts'
import { createEmptyDatabase } from '../harness/database.ts'

const migrations = await readMigrations()

async function withEmptyDatabase(
  work: (db: Database, connect: () => Database, connection: ConnectionSettings) => Promise<void>,
): Promise<void> {
  const empty = await createEmptyDatabase()
  const others: Database[] = []
  const connect = () => {
    const db = connectDatabase(empty.connection, 2, () => {})
    others.push(db)
    return db
  }
  try {
    await work(empty.db, connect, empty.connection)
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

test('the version before works on a newer schema, until a migration took something away', () =>
  withEmptyDatabase(async (db) => {
    await migrate(db)
    const add = (number: number, name: string) =>
      db.execute(sql`INSERT INTO schema_migrations (number, name, checksum) VALUES (${number}, ${name}, 'x')`)
    await add(9998, '9998-future.sql')
    assert.equal(await migrate(db), 0)
    await add(9999, '9999-future.contract.sql')
    await assert.rejects(migrate(db), /migrated by a newer Sluice \(it has 9999-future\.contract\.sql\)/)
  }))

test('every migration has a unique number', () => {
  const numbers = migrations.map(({ number }) => number)
  assert.deepEqual(numbers, [...new Set(numbers)])
})

test('a migration that the database ends to resolve a deadlock is tried again', () =>
  withEmptyDatabase(async (db) => {
    let ended = false
    const transaction = ((work) => {
      if (ended) return db.transaction(work)
      ended = true
      return Promise.reject(Object.assign(new pg.DatabaseError('deadlock detected', 0, 'error'), { code: DEADLOCK }))
    }) as typeof db.transaction
    assert.equal(await migrate({ ...db, transaction }), migrations.length)
  }))

test('a long reader delays a migration, but the migration delays no one for long', () =>
  withEmptyDatabase(async (db, connect) => {
    await db.execute(
      script(
        'CREATE TABLE schema_migrations (number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())',
      ),
    )
    for (const { number, name, text, checksum } of migrations.slice(0, 4)) {
      await db.execute(script(text))
      await db.execute(
        sql`INSERT INTO schema_migrations (number, name, checksum) VALUES (${number}, ${name}, ${checksum})`,
      )
    }
    const waits = Promise.withResolvers<string>()
    let migrating: Promise<number> | undefined
    await connect().transaction(async (reader) => {
      await reader.execute(sql`SELECT 1 FROM runs`)
      migrating = migrate(db, waits.resolve)
      assert.match(await waits.promise, /waits for a lock/)
      const began = performance.now()
      await connect().execute(sql`DELETE FROM runs`)
      assert.ok(performance.now() - began < 4000, 'others pass in between')
    })
    assert.equal(await migrating, migrations.length - 4)
  }))

test('a missing privilege is one sentence with the GRANT that helps', () =>
  withEmptyDatabase(async (db, _connect, connection) => {
    const role = `guest_${process.pid}`
    // The default since PostgreSQL 15.
    await db.execute(script('REVOKE CREATE ON SCHEMA public FROM PUBLIC'))
    await db.execute(script(`CREATE ROLE ${role} LOGIN PASSWORD 'guest'`))
    const guest = connectDatabase({ ...connection, user: role, password: 'guest' }, 2, () => {})
    try {
      await assert.rejects(migrate(guest), (error) => {
        assert.ok(error instanceof OperatorError)
        assert.match(error.message, new RegExp(`GRANT USAGE, CREATE ON SCHEMA public TO ${role};`))
        return true
      })
      await migrate(db)
      await assert.rejects(migrate(guest), (error) => {
        assert.ok(error instanceof OperatorError)
        assert.match(
          error.message,
          new RegExp(`^The database user ${role} may not use the tables \\(.*schema_migrations\\)`),
        )
        return true
      })
    } finally {
      await guest.close()
      await db.execute(script(`DROP ROLE ${role}`))
    }
  }))
