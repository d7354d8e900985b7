import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { beforeEach, test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { registerQueue } from '../../src/identity/passwords.ts'
import { COST_OF_TAKEN, REGISTRATIONS_PER_CLIENT } from '../../src/identity/registration-attempts.ts'
import { type Answer, PASSWORD, registerPerson, startApp } from '../harness/app.ts'

const app = await startApp({ TRUSTED_PROXIES: '127.0.0.1' })
const { db } = app.services

const freshEmail = () => `${randomUUID()}@example.com`
const register = (email: string, client = '203.0.113.7', body: object = {}): Promise<Answer> =>
  app.call('POST', '/api/auth/register', {
    body: { email, password: PASSWORD, name: 'A', organization_name: 'B', ...body },
    headers: { 'x-forwarded-for': client },
  })
const countOf = async (client: string): Promise<number> =>
  (await db.first<{ attempts: number }>(sql`SELECT attempts FROM login_attempts WHERE key = ${`register ${client}`}`))
    ?.attempts ?? 0
/** As if the client had registered so often. */
const setCount = (client: string, attempts: number) =>
  db.execute(sql`INSERT INTO login_attempts (key, attempts) VALUES (${`register ${client}`}, ${attempts})
                 ON CONFLICT (key) DO UPDATE SET attempts = excluded.attempts`)

beforeEach(() => db.execute(sql`DELETE FROM login_attempts`))

test('a client that registers too often has to wait, and no other client has to', async () => {
  await setCount('203.0.113.7', REGISTRATIONS_PER_CLIENT - 1)
  assert.equal((await register(freshEmail())).status, 201)
  const refused = await register(freshEmail())
  assert.equal(refused.status, 429)
  const seconds = Number(refused.headers['retry-after'])
  assert.ok(seconds > 890 && seconds <= 900, String(seconds))
  assert.match(refused.body.detail, /registrations from your network; try again in 15 minutes/)
  assert.equal((await register(freshEmail(), '203.0.113.8')).status, 201)
  await db.execute(sql`UPDATE login_attempts SET window_start = window_start - interval '15 minutes'`)
  assert.equal((await register(freshEmail())).status, 201)
})

test('of many concurrent registrations no more than the limit succeed', async () => {
  await setCount('203.0.113.7', REGISTRATIONS_PER_CLIENT - 5)
  const answers = await Promise.all(Array.from({ length: 20 }, () => register(freshEmail())))
  assert.equal(answers.filter(({ status }) => status === 201).length, 5)
  assert.equal(answers.filter(({ status }) => status === 429).length, 15)
})

test('all addresses of an IPv6 /64 are one client', async () => {
  await setCount('20010db800000007::/64', REGISTRATIONS_PER_CLIENT)
  assert.equal((await register(freshEmail(), '2001:db8:0:7::1')).status, 429)
  assert.equal((await register(freshEmail(), '2001:db8:0:7:ffff::2')).status, 429)
  assert.equal((await register(freshEmail(), '2001:db8:0:8::1')).status, 201)
})

test('a client can test only a few addresses for an account', async () => {
  const person = await registerPerson(app)
  await db.execute(sql`DELETE FROM login_attempts`)
  await setCount('203.0.113.7', REGISTRATIONS_PER_CLIENT - 2 * COST_OF_TAKEN)
  for (let index = 0; index < 2; index++) assert.equal((await register(person.email)).status, 409)
  assert.equal((await register(person.email)).status, 429)
  assert.equal((await register(freshEmail())).status, 429)
})

test('invalid requests are not counted', async () => {
  assert.equal((await register('no address')).status, 400)
  assert.equal((await register(freshEmail(), undefined, { password: 'weak' })).status, 400)
  assert.equal(await countOf('203.0.113.7'), 0)
})

test('nothing is hashed for an address that has an account', async () => {
  const person = await registerPerson(app)
  const gate = Promise.withResolvers<void>()
  const full = Array.from({ length: 150 }, () => registerQueue.run('203.0.113.7', () => gate.promise))
  const busy = await register(freshEmail())
  assert.deepEqual([busy.status, busy.headers['retry-after']], [429, '5'], 'the queue is full')
  assert.equal((await register(person.email)).status, 409)
  gate.resolve()
  await Promise.all(full)
})
