import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PASSWORD, registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()

test('a registered person owns a new organization and is signed in', async () => {
  const answer = await app.call('POST', '/api/auth/register', {
    body: { email: 'Ada@Example.com', password: PASSWORD, name: 'Ada', organization_name: 'Analytical Engines' },
  })
  assert.equal(answer.status, 201)
  assert.equal(answer.body.user.email, 'ada@example.com')
  assert.equal(answer.body.user.role, 'owner')
  assert.match(answer.body.organization.slug, /^analytical-engines-[a-z0-9]{6}$/)
  const me = await app.call('GET', '/api/auth/me', { as: answer.body })
  assert.equal(me.status, 200)
  assert.equal(me.body.id, answer.body.user.id)
})

test('a refresh token is used once: an old one ends the session', async () => {
  const person = await registerPerson(app)
  const first = await app.call('POST', '/api/auth/refresh', { body: { refresh_token: person.refresh_token } })
  assert.equal(first.status, 200)
  const race = await app.call('POST', '/api/auth/refresh', { body: { refresh_token: person.refresh_token } })
  assert.equal(race.status, 200, 'two tabs may race within the grace')
})
