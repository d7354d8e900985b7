import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { deleteExpiredRows } from '../../src/identity/expired-rows.ts'
import { type Answer, PASSWORD, type Person, registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const { db } = app.services

const refresh = (refresh_token: string) => app.call('POST', '/api/auth/refresh', { body: { refresh_token } })
const me = (as: { access_token: string }) => app.call('GET', '/api/auth/me', { as })
const login = async (person: Person, password = PASSWORD): Promise<Answer> =>
  app.call('POST', '/api/auth/login', { body: { email: person.email, password } })
/** Makes every use of a refresh token lie further back than two tabs may race. */
const letGracePass = (person: Person) =>
  db.execute(sql`
    UPDATE refresh_tokens SET used_at = used_at - interval '31 seconds', superseded_at = superseded_at - interval '31 seconds'
     WHERE session_id IN (SELECT id FROM sessions WHERE user_id = ${person.id})`)

test('a refresh gives new tokens of the same session, and both access tokens work', async () => {
  const person = await registerPerson(app)
  const { status, body } = await refresh(person.refresh_token)
  assert.equal(status, 200)
  assert.notEqual(body.refresh_token, person.refresh_token)
  assert.equal(body.organization.id, person.organization_id)
  assert.equal((await me(body)).status, 200)
  assert.equal((await me(person)).status, 200)
})

test('two tabs may race with one refresh token', async () => {
  const person = await registerPerson(app)
  const answers = await Promise.all([refresh(person.refresh_token), refresh(person.refresh_token)])
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200],
  )
})

test('the first of two successors that is used ends the other one and their parent', async () => {
  const person = await registerPerson(app)
  const [one, other] = await Promise.all([refresh(person.refresh_token), refresh(person.refresh_token)])
  const next = await refresh(one.body.refresh_token)
  assert.equal(next.status, 200)
  assert.equal((await refresh(other.body.refresh_token)).status, 401)
  assert.equal((await refresh(person.refresh_token)).status, 401)
  assert.equal((await refresh(next.body.refresh_token)).status, 200, 'two tabs that race end nothing else')
  assert.equal((await me(next.body)).status, 200)
})

test('one of two successors that are used at once wins', async () => {
  const person = await registerPerson(app)
  let token = person.refresh_token
  for (let round = 0; round < 10; round++) {
    const successors = await Promise.all([refresh(token), refresh(token)])
    const answers = await Promise.all(successors.map(({ body }) => refresh(body.refresh_token)))
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 401])
    token = answers.find(({ status }) => status === 200)!.body.refresh_token
  }
})

test('a superseded refresh token that comes back later ends the whole family', async () => {
  const person = await registerPerson(app)
  const [thief, victim] = await Promise.all([refresh(person.refresh_token), refresh(person.refresh_token)])
  const stolen = (await refresh(thief.body.refresh_token)).body
  await letGracePass(person)
  assert.equal((await refresh(victim.body.refresh_token)).status, 401)
  assert.equal((await me(stolen)).status, 401)
  assert.equal((await refresh(stolen.refresh_token)).status, 401)
})

test('a used refresh token that comes back later ends the whole family', async () => {
  const person = await registerPerson(app)
  const next = (await refresh(person.refresh_token)).body
  await letGracePass(person)
  assert.equal((await refresh(person.refresh_token)).status, 401)
  assert.equal((await refresh(next.refresh_token)).status, 401)
  assert.equal((await me(next)).status, 401)
  const [line] = await db.query<{ action: string }>(
    sql`SELECT action FROM audit_log WHERE actor_id = ${person.id} ORDER BY id DESC LIMIT 1`,
  )
  assert.equal(line?.action, 'session.replayed')
})

test('a replay ends its own family and no other session', async () => {
  const person = await registerPerson(app)
  const other = (await login(person)).body
  await refresh(person.refresh_token)
  await letGracePass(person)
  assert.equal((await refresh(person.refresh_token)).status, 401)
  assert.equal((await me(other)).status, 200)
})

test('refresh tokens are stored hashed', async () => {
  const person = await registerPerson(app)
  const rows = await db.query<{ row: string }>(sql`SELECT row_to_json(t)::text AS row FROM refresh_tokens t`)
  assert.ok(rows.length > 0)
  assert.ok(rows.every(({ row }) => !row.includes(person.refresh_token)))
})

test('signing out ends the session and all its tokens immediately', async () => {
  const person = await registerPerson(app)
  const other = (await login(person)).body
  assert.equal((await app.call('POST', '/api/auth/logout', { as: person })).status, 200)
  assert.equal((await me(person)).status, 401)
  assert.equal((await refresh(person.refresh_token)).status, 401)
  assert.equal((await app.call('POST', '/api/auth/logout', { as: person })).status, 401)
  assert.equal((await me(other)).status, 200)
})

test('a new password ends all other sessions and keeps this one', async () => {
  const person = await registerPerson(app)
  const other = (await login(person)).body
  const body = { current_password: PASSWORD, new_password: 'Another-horse-2' }
  const changed = await app.call('PUT', '/api/auth/password', { as: person, body })
  assert.equal(changed.status, 200)
  assert.equal(typeof changed.body.message, 'string')
  assert.equal((await me(person)).status, 200)
  assert.equal((await me(other)).status, 401)
  assert.equal((await refresh(other.refresh_token)).status, 401)
  assert.equal((await login(person)).status, 401)
  assert.equal((await login(person, 'Another-horse-2')).status, 200)
})

test('a wrong current password and a weak new one are 400', async () => {
  const person = await registerPerson(app)
  const change = (current_password: string, new_password: string) =>
    app.call('PUT', '/api/auth/password', { as: person, body: { current_password, new_password } })
  const wrong = await change('Wrong-password-1', 'Another-horse-2')
  assert.deepEqual([wrong.status, wrong.body.detail], [400, 'current_password: this is not your current password'])
  const weak = await change(PASSWORD, 'weak')
  assert.equal(weak.status, 400)
  assert.match(weak.body.detail, /^new_password: needs at least 8 characters, an uppercase letter, a number, a special/)
  assert.equal((await login(person)).status, 200)
})

test('one of two concurrent password changes wins', async () => {
  const person = await registerPerson(app)
  const change = (new_password: string) =>
    app.call('PUT', '/api/auth/password', { as: person, body: { current_password: PASSWORD, new_password } })
  const answers = await Promise.all([change('Another-horse-2'), change('Another-horse-3')])
  const won = answers.findIndex(({ status }) => status === 200)
  assert.ok([400, 409].includes(answers[1 - won]!.status))
  assert.equal((await login(person, `Another-horse-${won + 2}`)).status, 200)
})

test('switching opens a session of its own in another organization of mine', async () => {
  const [person, host] = [await registerPerson(app), await registerPerson(app)]
  const strange = await app.call('POST', '/api/auth/switch', {
    as: person,
    body: { organization_id: host.organization_id },
  })
  assert.equal(strange.status, 404)
  await db.execute(
    sql`INSERT INTO memberships (organization_id, user_id, role) VALUES (${host.organization_id}, ${person.id}, 'member')`,
  )
  const switched = (
    await app.call('POST', '/api/auth/switch', { as: person, body: { organization_id: host.organization_id } })
  ).body
  assert.equal((await me(switched)).body.role, 'member')
  assert.equal((await me(person)).body.role, 'owner', 'older tokens stay valid')
  assert.equal((await refresh(switched.refresh_token)).body.organization.id, host.organization_id)
  await db.execute(
    sql`DELETE FROM memberships WHERE organization_id = ${host.organization_id} AND user_id = ${person.id}`,
  )
  assert.equal((await me(switched)).status, 401, 'a membership that is gone stops working at once')
  assert.equal((await me(person)).status, 200, 'and only there')
})

test('expired sessions are deleted, and nothing else', async () => {
  const [gone, kept] = [await registerPerson(app), await registerPerson(app)]
  await db.execute(sql`UPDATE sessions SET expires_at = now() - interval '25 hours' WHERE user_id = ${gone.id}`)
  await deleteExpiredRows(db)
  const sessionsOf = async (person: Person) =>
    (
      await db.query(
        sql`SELECT 1 FROM sessions s JOIN refresh_tokens t ON t.session_id = s.id WHERE s.user_id = ${person.id}`,
      )
    ).length
  assert.equal(await sessionsOf(gone), 0)
  assert.equal(await sessionsOf(kept), 1)
  assert.equal((await me(kept)).status, 200)
})

test('a changed role takes effect with the next request', async () => {
  const person = await registerPerson(app)
  await db.execute(sql`UPDATE memberships SET role = 'viewer' WHERE user_id = ${person.id}`)
  const { body } = await me(person)
  assert.equal(body.role, 'viewer')
  assert.ok(!body.permissions.includes('pipelines:write'))
})

const sessions = async (as: { access_token: string }) => (await app.call('GET', '/api/auth/sessions', { as })).body

test('a person sees their sessions in all organizations, and which one is current', async () => {
  const [person, host] = [await registerPerson(app), await registerPerson(app)]
  await db.execute(
    sql`INSERT INTO memberships (organization_id, user_id, role) VALUES (${host.organization_id}, ${person.id}, 'member')`,
  )
  const second = await app.call('POST', '/api/auth/login', {
    body: { email: person.email, password: PASSWORD },
    headers: { 'user-agent': `Browser ${'x'.repeat(1000)}` },
  })
  const switched = await app.call('POST', '/api/auth/switch', {
    as: person,
    body: { organization_id: host.organization_id },
  })
  const listed = await sessions(second.body)
  assert.equal(listed.length, 3)
  const [current] = listed.filter((session: { current: boolean }) => session.current)
  assert.deepEqual(Object.keys(current).sort(), [
    'client_address',
    'created_at',
    'current',
    'expires_at',
    'id',
    'last_used_at',
    'organization',
    'user_agent',
  ])
  assert.deepEqual(
    [current.client_address, current.user_agent.slice(0, 9), current.user_agent.length],
    ['127.0.0.1', 'Browser x', 300],
  )
  assert.equal(listed[0].organization.id, switched.body.organization.id, 'the one used last is first')
  await refresh(second.body.refresh_token)
  assert.equal((await sessions(second.body))[0].id, current.id)
  assert.ok(!(await app.call('GET', '/api/auth/sessions', { as: person })).text.includes(host.email))
})

test('a session that a person ends stops immediately, with all its tokens', async () => {
  const person = await registerPerson(app)
  const other = (await login(person)).body
  const lost = (await sessions(other)).find((session: { current: boolean }) => session.current).id
  const end = (as: { access_token: string }) => app.call('DELETE', `/api/auth/sessions/${lost}`, { as })
  assert.equal((await end(await registerPerson(app))).status, 404, 'nobody ends the session of another')
  assert.equal((await end(person)).status, 204)
  assert.equal((await me(other)).status, 401)
  assert.equal((await refresh(other.refresh_token)).status, 401)
  assert.equal((await me(person)).status, 200)
  assert.equal((await end(person)).status, 404)
  assert.equal((await sessions(person)).length, 1)
})

test('sessions that have ended are not listed', async () => {
  const person = await registerPerson(app)
  const [signedOut, expired] = [(await login(person)).body, (await login(person)).body]
  await app.call('POST', '/api/auth/logout', { as: signedOut })
  const { sid } = (await app.services.tokens.verifyAccess(expired.access_token))!
  await db.execute(sql`UPDATE sessions SET expires_at = now() WHERE id = ${sid}`)
  assert.equal((await sessions(person)).length, 1)
})

test('a person changes their name, and nothing else', async () => {
  const person = await registerPerson(app)
  const change = (body: unknown) => app.call('PUT', '/api/auth/me', { as: person, body })
  const changed = await change({ name: ' Ada Lovelace ' })
  assert.deepEqual([changed.status, changed.body.name, changed.body.email], [200, 'Ada Lovelace', person.email])
  assert.deepEqual((await me(person)).body, changed.body)
  for (const body of [{}, { name: '' }, { name: ' ' }, { name: 7 }, { name: null }])
    assert.equal((await change(body)).status, 400, JSON.stringify(body))
})
