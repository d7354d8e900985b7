/**
 * Checks, stream listings and previews whose provider rotates the refresh token: it is stored, or the caller is warned.
 */
import assert from 'node:assert/strict'
import { after, beforeEach, test } from 'node:test'
import { createRefreshTokens } from '../../src/connections/refresh-tokens.ts'
import type { Authentication } from '../../src/connectors/contract.ts'
import type { CallPool } from '../../src/executors/call-pool.ts'
import { writeSource } from '../cell/harness.ts'
import { startServer } from '../egress/http-server.ts'
import { registerPerson, startApp } from '../harness/app.ts'
import { startAuthServer } from '../harness/auth-server.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.0/8' })
const { db, box, calls } = app.services
const person = await registerPerson(app, 'Owner')
const auth = await startAuthServer()
after(() => auth.close())
const server = await startServer()
const url = `${server.base}/rows.jsonl`
const REPLACED = /has rotated the refresh token.*authorize again/s

beforeEach(() => {
  auth.reset()
  auth.guard('oauth2_refresh_token')
  server.on('/rows.jsonl', (request, response) => {
    if (auth.admits(request.headers)) response.end('{"id":1}\n')
    else response.writeHead(401).end(request.headers.authorization)
  })
})

async function post(path: string, body: object) {
  const answer = await app.call('POST', path, { as: person, body })
  for (const secret of auth.secrets) assert.ok(!answer.text.includes(secret), 'a secret was said')
  return answer
}

async function save(authentication: Authentication, connector_name = 'file'): Promise<string> {
  const config = { authentication, config: connector_name === 'file' ? { url } : {} }
  const body = { name: 'saved', connector_name, config }
  const answer = await app.call('POST', '/api/saved/sources', { as: person, body })
  assert.equal(answer.status, 201, answer.text)
  return answer.body.id
}

async function stored(id: string): Promise<string> {
  const answer = await app.call('GET', `/api/saved/sources/${id}`, { as: person })
  return answer.body.config.authentication.params.refresh_token
}

async function createSource(): Promise<string> {
  const code = writeSource(`yield from [self.http.get("${url}").raise_for_status().json()]`).replace(
    'def check_connection(self): return True',
    `def check_connection(self): return self.http.get("${url}").ok`,
  )
  const body = { name: 'Mine', source_name: 'mine', code }
  const answer = await app.call('POST', '/api/custom-sources', { as: person, body })
  assert.ok([201, 409].includes(answer.status), answer.text)
  const listed = await app.call('GET', '/api/custom-sources', { as: person })
  return listed.body[0].id
}

test('a check or stream listing of a saved connector stores the rotated token, every time', async () => {
  await createSource()
  for (const connector of ['file', 'mine']) {
    const authentication = auth.good('oauth2_refresh_token')
    const id = await save(authentication, connector)
    for (let round = 0; round < 2; round++) {
      const check = await post('/api/connectors/check', { source: { saved_connector_id: id } })
      assert.equal(check.body.success, true, check.text)
      assert.doesNotMatch(check.body.message, REPLACED)
      assert.equal(await stored(id), auth.currentToken(String(authentication.params.refresh_token)))
    }
    const streams = await post('/api/connectors/streams', { source: { saved_connector_id: id } })
    assert.equal(streams.body.success, true, streams.text)
    assert.equal(await stored(id), auth.currentToken(String(authentication.params.refresh_token)))
  }
  assert.ok(auth.tokenRequests.every(({ status }) => status === 200))
})

test('a failed check stores it too, and shows no token', async () => {
  const authentication = auth.good('oauth2_refresh_token')
  const id = await save(authentication)
  auth.onRequest = () => auth.expireTokens()
  const check = await post('/api/connectors/check', { source: { saved_connector_id: id } })
  assert.equal(check.body.success, false)
  assert.equal(await stored(id), auth.currentToken(String(authentication.params.refresh_token)))
})

test('for a configuration that is not stored, the caller is told that the token was rotated', async () => {
  const source = await createSource()
  const inline = () => ({ name: 'file', authentication: auth.good('oauth2_refresh_token'), config: { url } })
  const check = await post('/api/connectors/check', { source: inline() })
  assert.equal(check.body.success, true)
  assert.match(check.body.message, REPLACED)
  const authentication = () => auth.good('oauth2_refresh_token')
  const own = await post(`/api/custom-sources/${source}/check`, { authentication: authentication() })
  assert.equal(own.body.success, true)
  assert.match(own.body.message, REPLACED)
  const call = () => ({ source_id: source, stream: 'a', authentication: authentication() })
  const preview = await post('/api/custom-sources/preview', call())
  assert.equal(preview.body.success, true, preview.text)
  assert.match(preview.body.logs.at(-1), REPLACED)
  auth.onRequest = () => auth.expireTokens()
  const failed = await post('/api/custom-sources/preview', call())
  assert.equal(failed.body.success, false)
  assert.match(failed.body.error, REPLACED)
  auth.reset()
  auth.rotates = false
  assert.doesNotMatch((await post('/api/connectors/check', { source: inline() })).body.message, REPLACED)
})

test('a caller that disconnects in the middle of an exchange does not lose the new token', async () => {
  const authentication = auth.good('oauth2_refresh_token')
  const first = String(authentication.params.refresh_token)
  const id = await save(authentication)
  const place = {
    organization_id: person.organization_id,
    name: 'file',
    authentication,
    config: { url },
    origin: { table: 'saved_connectors' as const, id },
  }
  const gone = new AbortController()
  auth.beforeToken = async () => gone.abort(new Error('gone'))
  const endpoint = { type: 'source' as const, name: 'file', authentication, config: { url }, custom: null }
  const caller: Parameters<CallPool['run']>[3] = {
    signal: gone.signal,
    tokens: createRefreshTokens(db, box, place),
  }
  await assert.rejects(calls.run(person.organization_id, 'check', { endpoint, outputs: null, stream: null }, caller))
  assert.notEqual(auth.currentToken(first), first)
  assert.equal(await stored(id), auth.currentToken(first))
})
