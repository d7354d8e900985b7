import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { connectDatabase, isDatabaseError, script, sql, UNIQUE_VIOLATION } from '../../src/database/database.ts'
import { DatabaseUnavailable } from '../../src/database/unreachable.ts'
import { cloneDatabase } from '../harness/database.ts'
import { startDatabaseProxy } from '../harness/database-proxy.ts'

const { db, connection, drop } = await cloneDatabase(3)
after(drop)
await db.execute(sql`CREATE TABLE notes (id int PRIMARY KEY, at timestamptz, size bigint)`)

/** Ends connections as a restart or a network failure would. */
const breakConnections = (query: string) =>
  db.execute(sql`
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE ${query}`)

test('timestamps are ISO 8601 in UTC with all digits, and big integers are numbers', async () => {
  await db.execute(sql`INSERT INTO notes VALUES (1, '2026-03-29 03:04:05.678901+02', 9007199254740991)`)
  assert.deepEqual(await db.first(sql`SELECT at, size FROM notes WHERE id = ${1}`), {
    at: '2026-03-29T01:04:05.678901Z',
    size: 9007199254740991,
  })
  assert.equal(await db.first(sql`SELECT 1 FROM notes WHERE id = ${99}`), null)
})

test('a failed transaction leaves nothing, and its error is the one that was thrown', async () => {
  const failed = db.transaction(async (tx) => {
    await tx.execute(sql`INSERT INTO notes (id) VALUES (${2})`)
    await tx.execute(sql`INSERT INTO notes (id) VALUES (${2})`)
  })
  await assert.rejects(failed, (error) => isDatabaseError(error, UNIQUE_VIOLATION, 'notes_pkey'))
  assert.equal(await db.first(sql`SELECT 1 FROM notes WHERE id = ${2}`), null)
})

test('a connection lost in the middle of a transaction only fails that transaction', async () => {
  const lost = db.transaction(async (tx) => {
    await tx.execute(sql`INSERT INTO notes (id) VALUES (${3})`)
    await breakConnections('INSERT INTO notes%')
    await tx.execute(sql`INSERT INTO notes (id) VALUES (${4})`)
  })
  await assert.rejects(lost)
  assert.deepEqual(await db.query(sql`SELECT id FROM notes WHERE id IN (3, 4)`), [])
  await Promise.all(Array.from({ length: 6 }, () => db.first(sql`SELECT 1`)))
})

test('claims and leases have their own connections: requests that hold all others do not delay them', async () => {
  const own = connectDatabase(connection, 2, () => {})
  try {
    const busy = Array.from({ length: 6 }, () => own.first(sql`SELECT pg_sleep(1.5)`))
    const began = performance.now()
    await own.control.transaction((tx) => tx.first(sql`SELECT 1`))
    assert.ok(performance.now() - began < 1500)
    assert.ok(own.usage().waiting >= 4)
    await Promise.all(busy)
  } finally {
    await own.close()
  }
})

test('every statement has a limit of time, on the server and for the answer', async () => {
  const row = await db.first<{ main: string }>(sql`SELECT current_setting('statement_timeout') AS main`)
  const control = await db.control.first<{ control: string }>(
    sql`SELECT current_setting('statement_timeout') AS control`,
  )
  assert.deepEqual([row!.main, control!.control], ['1min', '8s'])
  await assert.rejects(db.first({ ...script('SELECT 1, pg_sleep(2)'), answerMs: 200 }), DatabaseUnavailable)
  assert.ok(await db.first(sql`SELECT 1`), 'the next statement gets a connection that works')
})

test('closing waits until the last connection is gone', async () => {
  const own = connectDatabase(connection, 5, () => {})
  await Promise.all(Array.from({ length: 5 }, () => own.first(sql`SELECT pg_sleep(0.01)`)))
  await own.close()
  const left = await db.first<{ count: number }>(
    sql`SELECT count(*) AS count FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT pg_sleep%'`,
  )
  assert.equal(left!.count, 0)
})

test('whoever waits for a server that fell silent is told so as soon as a short question gets no answer', async () => {
  const proxy = await startDatabaseProxy(connection)
  const far = connectDatabase(proxy.connection, 2, () => {})
  try {
    await far.control.first(sql`SELECT 1`)
    const waits = far.first(sql`SELECT pg_sleep(50)`)
    proxy.fallSilent(true)
    await assert.rejects(waits, (error: Error) => {
      assert.ok(error instanceof DatabaseUnavailable)
      assert.doesNotMatch(error.message, /read timeout/, 'it waited for its own limit of a minute')
      return true
    })
  } finally {
    await far.close()
    await proxy.close()
  }
})

test('an outage is over when the database answers again, not when it was last asked in vain', async () => {
  const proxy = await startDatabaseProxy(connection)
  const far = connectDatabase(proxy.connection, 2, () => {})
  try {
    await far.control.first(sql`SELECT 1`)
    proxy.refuse(true)
    await assert.rejects(far.control.first(sql`SELECT 1`), DatabaseUnavailable)
    proxy.refuse(false)
    assert.equal(far.control.steadyForMs(), 0, 'nobody knows whether it is back')
    const asked = performance.now()
    while ((await far.control.first(sql`SELECT 1`).catch(() => null)) === null);
    assert.ok(far.control.steadyForMs() <= performance.now() - asked)
  } finally {
    await far.close()
    await proxy.close()
  }
})
