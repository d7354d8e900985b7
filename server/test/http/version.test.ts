import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const person = await registerPerson(app)

test('those who are signed in learn the version, and strangers do not', async () => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  const answer = await app.call('GET', '/api/version', { as: person })
  assert.deepEqual([answer.status, answer.body], [200, { version }])
  const stranger = await app.call('GET', '/api/version')
  assert.equal(stranger.status, 401)
  assert.equal(stranger.text.includes(version), false)
})
