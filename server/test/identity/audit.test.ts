import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Database, type Queryable, sql } from '../../src/database/database.ts'
import { register } from '../../src/identity/registration.ts'
import { PASSWORD, registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const { db, tokens } = app.services

interface Line {
  action: string
  actor_email: string | null
  organization_id: string
  object_type: string
  object_id: string
  details: object
  request_id: string
  client_address: string
}

const linesOf = (requestId: string) =>
  db.query<Line>(sql`
    SELECT action, actor_email, organization_id, object_type, object_id, details, request_id, client_address
      FROM audit_log WHERE request_id = ${requestId} ORDER BY id`)

test('every change of an account leaves a line with who, where, what and from where', async () => {
  const person = await registerPerson(app)
  const secret = 'Another-horse-2'
  const changes: [string, string, object | undefined, string][] = [
    ['PUT', '/api/organization', { name: 'Renamed' }, 'organization.renamed'],
    ['PUT', '/api/auth/password', { current_password: PASSWORD, new_password: secret }, 'user.password_changed'],
    ['POST', '/api/auth/switch', { organization_id: person.organization_id }, 'session.opened'],
    ['POST', '/api/auth/login', { email: person.email, password: secret }, 'session.opened'],
    ['POST', '/api/auth/logout', undefined, 'session.closed'],
  ]
  for (const [method, url, body, action] of changes) {
    const headers = { 'x-request-id': `audit-${method}-${url.replaceAll('/', '.')}` }
    const answer = await app.call(method, url, { as: person, body, headers })
    assert.equal(answer.status, 200, `${method} ${url}: ${answer.text}`)
    const lines = await linesOf(headers['x-request-id'])
    assert.deepEqual(
      lines.map((line) => [line.action, line.actor_email, line.organization_id, line.client_address]),
      [[action, person.email, person.organization_id, '127.0.0.1']],
    )
    assert.ok(lines[0]!.object_type && lines[0]!.object_id)
  }
})

test('no password, hash or token is in any line', async () => {
  const person = await registerPerson(app)
  await app.call('POST', '/api/auth/refresh', { body: { refresh_token: person.refresh_token } })
  const all = JSON.stringify(await db.query(sql`SELECT * FROM audit_log`))
  for (const secret of [PASSWORD, '$argon2', person.access_token, person.refresh_token])
    assert.ok(!all.includes(secret), secret)
})

test('a change and its line are one transaction: neither is there without the other', async () => {
  const failing: Database = {
    ...db,
    transaction: (work) =>
      db.transaction((tx) => {
        const execute: Queryable['execute'] = (statement) =>
          statement.text.includes('audit_log') ? Promise.reject(new Error('no room')) : tx.execute(statement)
        return work({ ...tx, execute })
      }),
  }
  const input = { email: 'half@example.com', password: PASSWORD, name: 'Half', organization_name: 'Half' }
  const origin = { request_id: 'half', client_address: '127.0.0.1' }
  await assert.rejects(register({ db: failing, tokens, signup: 'open' }, input, origin), /no room/)
  assert.equal(await db.first(sql`SELECT 1 FROM users WHERE email = 'half@example.com'`), null)
})

test('a refused change leaves no line', async () => {
  const person = await registerPerson(app)
  const headers = { 'x-request-id': 'audit-refused' }
  const body = { current_password: 'Wrong-password-1', new_password: 'Another-horse-2' }
  assert.equal((await app.call('PUT', '/api/auth/password', { as: person, body, headers })).status, 400)
  assert.deepEqual(await linesOf('audit-refused'), [])
})
