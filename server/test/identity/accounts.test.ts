import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { makeSlug } from '../../src/identity/accounts.ts'
import { PASSWORD, registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const { db } = app.services

const registration = (email: string, more: object = {}) => ({
  email,
  password: PASSWORD,
  name: 'Ada',
  organization_name: 'Analytical Engines',
  ...more,
})
const register = (email: string, more: object = {}) =>
  app.call('POST', '/api/auth/register', { body: registration(email, more) })
const login = (email: string, password = PASSWORD) => app.call('POST', '/api/auth/login', { body: { email, password } })

test('a person who registers owns a new organization and is signed in', async () => {
  const { status, body } = await register(' Ada@Example.com ', { name: ' Ada Lovelace ' })
  assert.equal(status, 201)
  assert.deepEqual(Object.keys(body).sort(), ['access_token', 'organization', 'refresh_token', 'user'])
  assert.deepEqual(body.user, { id: body.user.id, email: 'ada@example.com', name: 'Ada Lovelace', role: 'owner' })
  assert.equal(body.organization.name, 'Analytical Engines')
  assert.match(body.organization.slug, /^analytical-engines-[a-z0-9]{6}$/)
  const me = await app.call('GET', '/api/auth/me', { as: body })
  assert.equal(me.status, 200)
  const { permissions, created_at, ...rest } = me.body
  assert.deepEqual(rest, {
    id: body.user.id,
    email: 'ada@example.com',
    name: 'Ada Lovelace',
    avatar_url: null,
    role: 'owner',
    organization: body.organization,
    has_password: true,
    idp_linked: false,
    domain_roles: [],
  })
  assert.ok(permissions.includes('organization:transfer'))
  assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$/)
})

test('a slug is the name in lower case with dashes and six characters', () => {
  assert.match(makeSlug('  Müller & Söhne GmbH '), /^muller-sohne-gmbh-[a-z0-9]{6}$/)
  assert.match(makeSlug('日本'), /^organization-[a-z0-9]{6}$/)
})

test('email addresses are compared without case: 409', async () => {
  await register('taken@example.com')
  const again = await register('TAKEN@example.com')
  assert.equal(again.status, 409)
  assert.match(again.body.detail, /already has an account/)
})

test('exactly one of ten concurrent registrations of an address succeeds', async () => {
  const answers = await Promise.all(Array.from({ length: 10 }, () => register('race@example.com')))
  assert.deepEqual(answers.map(({ status }) => status).sort(), [201, ...Array(9).fill(409)])
  const left = await db.first(sql`SELECT count(*) AS count FROM users WHERE email = 'race@example.com'`)
  assert.deepEqual(left, { count: 1 })
})

test('a weak password is refused, naming every rule it breaks', async () => {
  const cases: [string, RegExp][] = [
    ['short', /^password: needs at least 8 characters, an uppercase letter, a number, a special character$/],
    ['alllowercase', /^password: needs an uppercase letter, a number, a special character$/],
    ['ALLUPPER-1', /^password: needs a lowercase letter$/],
    ['NoNumbers-', /^password: needs a number$/],
    ['NoSpecial1', /^password: needs a special character$/],
    ['Aa1-567', /^password: needs at least 8 characters$/],
  ]
  for (const [password, expected] of cases) {
    const { status, body } = await register('weak@example.com', { password })
    assert.equal(status, 400, password)
    assert.match(body.detail, expected)
  }
  assert.equal((await register('weak@example.com', { password: 'Ünïcödé-1' })).status, 201)
})

test('an invalid body is 400, naming the field and what is allowed', async () => {
  const cases: [object, RegExp][] = [
    [{ email: 'nobody' }, /^email: /],
    [{ email: 'a@b@c' }, /^email: /],
    [{ email: 7 }, /^email: must be a string$/],
    [{ name: '   ' }, /^name: /],
    [{ name: null }, /^name: must be a string$/],
    [{ organization_name: '' }, /^organization_name: must not be empty$/],
    [{ organization_name: 'x'.repeat(201) }, /^organization_name: must be at most 200 characters long$/],
    [{ password: undefined }, /^password: this field is required$/],
  ]
  for (const [fields, expected] of cases) {
    const { status, body } = await register('fits@example.com', fields)
    assert.equal(status, 400, JSON.stringify(fields))
    assert.match(body.detail, expected)
  }
})

test('a wrong password and an unknown address get the same answer', async () => {
  const person = await registerPerson(app)
  const wrong = await login(person.email, 'Wrong-password-1')
  const unknown = await login('nobody@example.com', 'Wrong-password-1')
  assert.equal(wrong.status, 401)
  assert.deepEqual([unknown.status, unknown.body], [wrong.status, wrong.body])
  const withId = ({ 'x-request-id': _id, date: _date, ...headers }: Record<string, unknown>) => headers
  assert.deepEqual(withId(unknown.headers), withId(wrong.headers))
})

test('an unknown address takes as much work as a known one', async () => {
  const person = await registerPerson(app)
  // CPU time of this process with its threads, not the clock: a busy machine changes the one and not the other.
  const work = async (email: string) => {
    await db.execute(sql`DELETE FROM login_attempts`)
    const before = process.cpuUsage()
    await login(email, 'Wrong-password-1')
    const { user, system } = process.cpuUsage(before)
    return user + system
  }
  let [known, unknown] = [0, 0]
  for (let index = 0; index < 9; index++) {
    known += await work(person.email)
    unknown += await work('nobody@example.com')
  }
  assert.ok(unknown > known / 2, `known ${known} µs, unknown ${unknown} µs: hashing takes most of both`)
})

test('signing in opens the organization used last', async () => {
  const person = await registerPerson(app)
  const second = await db.first<{ id: string }>(
    sql`INSERT INTO organizations (name, slug) VALUES ('Second', 'second-abc123') RETURNING id`,
  )
  await db.execute(
    sql`INSERT INTO memberships (organization_id, user_id, role) VALUES (${second!.id}, ${person.id}, 'viewer')`,
  )
  const first = await login(person.email.toUpperCase())
  const { token_type, expires_in, ...result } = first.body
  assert.deepEqual([token_type, expires_in], ['bearer', 86_400])
  assert.deepEqual(Object.keys(result).sort(), ['access_token', 'organization', 'refresh_token', 'user'])
  assert.equal(first.status, 200)
  assert.equal(first.body.organization.id, person.organization_id)
  const switched = await app.call('POST', '/api/auth/switch', { as: first.body, body: { organization_id: second!.id } })
  assert.equal(switched.status, 200)
  assert.equal(switched.body.user.role, 'viewer')
  assert.equal((await login(person.email)).body.organization.id, second!.id)
  const mine = await app.call('GET', '/api/auth/organizations', { as: first.body })
  assert.deepEqual(
    mine.body.map(({ id, role }: { id: string; role: string }) => [id, role]),
    [
      [second!.id, 'viewer'],
      [person.organization_id, 'owner'],
    ],
  )
})

test('a person who was removed from every organization gets a new one at the next sign-in', async () => {
  const person = await registerPerson(app, 'Robinson')
  await db.execute(sql`DELETE FROM memberships WHERE user_id = ${person.id}`)
  assert.equal((await app.call('GET', '/api/auth/me', { as: person })).status, 401)
  const { status, body } = await login(person.email)
  assert.equal(status, 200)
  assert.equal(body.user.role, 'owner')
  assert.notEqual(body.organization.id, person.organization_id)
})

test('the organization is read by its members and renamed by admins and the owner', async () => {
  const owner = await registerPerson(app)
  const renamed = await app.call('PUT', '/api/organization', { as: owner, body: { name: ' New name ' } })
  assert.equal(renamed.status, 200)
  assert.deepEqual((await app.call('GET', '/api/organization', { as: owner })).body, renamed.body)
  assert.equal(renamed.body.name, 'New name')
  await db.execute(sql`UPDATE memberships SET role = 'member' WHERE user_id = ${owner.id}`)
  const refused = await app.call('PUT', '/api/organization', { as: owner, body: { name: 'Mine' } })
  assert.equal(refused.status, 403)
  assert.match(refused.body.detail, /organization:write/)
  assert.equal((await app.call('GET', '/api/organization', { as: owner })).body.name, 'New name')
})
