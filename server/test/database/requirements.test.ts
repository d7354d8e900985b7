/** Problems between Sluice and its database are reported at start, in one sentence. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { connectDatabase, script, sql } from '../../src/database/database.ts'
import { requireDatabase } from '../../src/database/requirements.ts'
import { OperatorError } from '../../src/errors.ts'
import { cloneDatabase } from '../harness/database.ts'
import { type Filter, startFilteringProxy } from '../harness/filtering-proxy.ts'

const { db, connection, drop } = await cloneDatabase()
after(drop)
const { database } = connection

async function through(filter: Filter, work: (db: ReturnType<typeof connectDatabase>) => Promise<void>): Promise<void> {
  const proxy = await startFilteringProxy(connection, filter)
  const far = connectDatabase(proxy.connection, 2, () => {})
  try {
    await work(far)
  } finally {
    await far.close()
    await proxy.close()
  }
}

test('a pooler that passes on everything except `options` works, whatever zone the database is in', async () => {
  await db.execute(script(`ALTER DATABASE ${database} SET TimeZone = 'Europe/Berlin'`))
  await db.execute(script(`ALTER DATABASE ${database} SET DateStyle = 'SQL, DMY'`))
  await through({ parameters: ['options'] }, async (far) => {
    await requireDatabase(far)
    const row = await far.first<{ at: string }>(sql`SELECT timestamptz '2026-07-01 12:00:00Z' AS at`)
    assert.equal(row!.at, '2026-07-01T12:00:00.000000Z')
  })
})

test('one that changes the time zone is refused', () =>
  through({ parameters: ['TimeZone'] }, async (far) => {
    await assert.rejects(requireDatabase(far), (error) => {
      assert.ok(error instanceof OperatorError)
      assert.match(error.message, /has TimeZone Europe\/Berlin.*instead of UTC/)
      return true
    })
  }))

test('one that loses notifications, as in transaction mode, is refused', () =>
  through({ notifications: true }, (far) => assert.rejects(requireDatabase(far), /pool_mode = session/)))

test('a read-only database is refused', async () => {
  await db.execute(script(`ALTER DATABASE ${database} SET default_transaction_read_only = on`))
  const own = connectDatabase(connection, 2, () => {})
  try {
    await assert.rejects(requireDatabase(own), /is read-only.*name the primary/)
  } finally {
    await own.close()
    await db.execute(
      script(`SET transaction_read_only = off; ALTER DATABASE ${database} RESET default_transaction_read_only`),
    )
  }
})
