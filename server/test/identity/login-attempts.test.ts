import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { beforeEach, test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { PASSWORD, registerPerson, startApp } from '../harness/app.ts'

const app = await startApp({ TRUSTED_PROXIES: '127.0.0.1' })
const { db } = app.services

const WRONG = 'Wrong-password-1'
const login = (email: string, password: string, client = '203.0.113.7') =>
  app.call('POST', '/api/auth/login', { body: { email, password }, headers: { 'x-forwarded-for': client } })
const repeat = <T>(times: number, work: (index: number) => Promise<T>) =>
  Promise.all(Array.from({ length: times }, (_, index) => work(index)))
const letTimePass = (minutes: number) =>
  db.execute(sql`UPDATE login_attempts SET window_start = window_start - make_interval(mins => ${minutes})`)

beforeEach(() => db.execute(sql`DELETE FROM login_attempts`))

test('after ten failed sign-ins an address has to wait, even with the right password', async () => {
  const person = await registerPerson(app)
  for (let index = 0; index < 10; index++)
    assert.equal((await login(person.email, WRONG, `203.0.113.${index}`)).status, 401)
  const refused = await login(person.email, PASSWORD)
  assert.equal(refused.status, 429)
  const seconds = Number(refused.headers['retry-after'])
  assert.ok(seconds > 890 && seconds <= 900, String(seconds))
  assert.match(refused.body.detail, /try again in 15 minutes/)
  await letTimePass(14)
  assert.equal((await login(person.email, PASSWORD)).status, 429)
  await letTimePass(1)
  assert.equal((await login(person.email, PASSWORD)).status, 200)
})

test('the limit also applies to an address without an account', async () => {
  await repeat(10, () => login('nobody@example.com', WRONG))
  assert.equal((await login('nobody@example.com', WRONG)).status, 429)
})

test('after fifty failed sign-ins a client has to wait, for every address', async () => {
  const person = await registerPerson(app)
  await repeat(50, (index) => login(`nobody.${index}@example.com`, WRONG))
  const refused = await login(person.email, PASSWORD)
  assert.equal(refused.status, 429)
  assert.ok(Number(refused.headers['retry-after']) > 0)
  assert.equal((await login(person.email, PASSWORD, '203.0.113.8')).status, 200, 'others are not kept waiting')
})

test('all addresses of an IPv6 network are one client', async () => {
  const guess = (index: number, network = '2001:db8:0:7') =>
    login(`somebody.${index}@example.com`, WRONG, `${network}::${index.toString(16)}`)
  await repeat(50, (index) => guess(index))
  assert.equal((await guess(99)).status, 429)
  assert.equal((await guess(99, '2001:db8:0:8')).status, 401)
})

test('of a hundred concurrent guesses hardly more than the limit are checked', async () => {
  const person = await registerPerson(app)
  const answers = await repeat(100, () => login(person.email, WRONG))
  const looked = answers.filter(({ status }) => status === 401).length
  assert.ok(looked >= 10 && looked < 10 + availableParallelism(), `${looked} were looked at`)
  assert.ok(answers.every(({ status }) => status === 401 || status === 429))
})

test('right passwords are never counted, even many at once', async () => {
  const person = await registerPerson(app)
  const answers = await repeat(60, () => login(person.email, PASSWORD))
  assert.ok(answers.every(({ status }) => status === 200))
})

test('a successful sign-in resets the counter of the address', async () => {
  const person = await registerPerson(app)
  await repeat(9, () => login(person.email, WRONG))
  assert.equal((await login(person.email, PASSWORD)).status, 200)
  await repeat(9, () => login(person.email, WRONG))
  assert.equal((await login(person.email, PASSWORD)).status, 200)
})

test('wrong current passwords count as well', async () => {
  const person = await registerPerson(app)
  const guess = () =>
    app.call('PUT', '/api/auth/password', {
      as: person,
      body: { current_password: WRONG, new_password: 'Another-horse-2' },
    })
  for (let index = 0; index < 10; index++) assert.equal((await guess()).status, 400)
  assert.equal((await guess()).status, 429)
})

test('a client cannot choose the address it is counted under unless a proxy is trusted', async () => {
  const plain = await startApp()
  const guess = (index: number) =>
    plain.call('POST', '/api/auth/login', {
      body: { email: `nobody.${index}@example.com`, password: WRONG },
      headers: { 'x-forwarded-for': `203.0.113.${index}` },
    })
  await repeat(50, guess)
  assert.equal((await guess(51)).status, 429)
})
