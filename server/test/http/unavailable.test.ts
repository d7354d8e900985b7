/** What callers hear when the database has trouble: 503, when to try again, and one sentence. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { connectDatabase, script, sql } from '../../src/database/database.ts'
import { registerPerson, startApp } from '../harness/app.ts'
import { type DatabaseProxy, startDatabaseProxy } from '../harness/database-proxy.ts'

let proxy: DatabaseProxy
after(() => proxy.close())
const app = await startApp({}, async (connection) => {
  proxy = await startDatabaseProxy(connection)
  return connectDatabase(proxy.connection, 2, () => {})
})
const { db } = app.services
const person = await registerPerson(app, 'Ada')
const list = () => app.call('GET', '/api/domains', { as: person })
const create = () => app.call('POST', '/api/domains', { as: person, body: { name: 'x' } })

async function failWith(code: string): Promise<void> {
  await db.execute(
    script(`CREATE OR REPLACE FUNCTION fail_on_purpose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'on purpose' USING ERRCODE = '${code}'; END $$;
            DROP TRIGGER IF EXISTS fail ON domains;
            CREATE TRIGGER fail BEFORE INSERT ON domains FOR EACH ROW EXECUTE FUNCTION fail_on_purpose()`),
  )
}

for (const [code, detail] of Object.entries({
  53100: /disk of the database is full/,
  57014: /took too long/,
  '55P03': /Another request is changing/,
}))
  test(`SQLSTATE ${code} is 503 with Retry-After`, async () => {
    await failWith(code)
    const answer = await create()
    assert.equal(answer.status, 503)
    assert.equal(answer.headers['retry-after'], '5')
    assert.match(answer.body.detail, detail)
  })

test('no free connection is 503', async () => {
  const busy = Array.from({ length: 2 }, () => db.first(sql`SELECT pg_sleep(12)`))
  const answer = await list()
  assert.deepEqual([answer.status, answer.headers['retry-after']], [503, '5'])
  assert.match(answer.body.detail, /No connection to the database is free/)
  await Promise.all(busy)
})

test('a database that is away is 503, and the next request after it is back is answered', async () => {
  proxy.refuse(true)
  const answer = await list()
  assert.deepEqual([answer.status, answer.headers['retry-after']], [503, '5'])
  assert.match(answer.body.detail, /The database does not answer/)
  proxy.refuse(false)
  assert.equal((await list()).status, 200)
})
