/** A check of a saved connector whose provider rotates the refresh token at every use. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { startServer } from '../egress/http-server.ts'
import { registerPerson, startApp } from '../harness/app.ts'
import { startAuthServer } from '../harness/auth-server.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.0/8' })
const person = await registerPerson(app)
const auth = await startAuthServer()
after(() => auth.close())
auth.guard('oauth2_refresh_token')
const server = await startServer()
server.on('/rows.jsonl', (request, response) => {
  if (auth.admits(request.headers)) response.end('{"id":1}\n')
  else response.writeHead(401).end()
})
const config = { url: `${server.base}/rows.jsonl` }

const check = (source: object) => app.call('POST', '/api/connectors/check', { as: person, body: { source } })
const WORKS = { success: true, message: 'The connection works' }

test('a check stores the rotated token, so that the next one works too', async () => {
  const authentication = auth.good('oauth2_refresh_token')
  const first = String(authentication.params.refresh_token)
  const body = { name: 'shared', connector_name: 'file', config: { authentication, config } }
  const { id } = (await app.call('POST', '/api/saved/sources', { as: person, body })).body
  for (let round = 1; round <= 3; round++) {
    assert.deepEqual((await check({ saved_connector_id: id })).body, WORKS)
    assert.equal(auth.tokenRequests.length, round)
    const saved = await app.call('GET', `/api/saved/sources/${id}`, { as: person })
    assert.equal(saved.body.config.authentication.params.refresh_token, auth.currentToken(first))
  }
  const together = await Promise.all([1, 2, 3].map(() => check({ saved_connector_id: id })))
  for (const { body } of together) assert.deepEqual(body, WORKS)
  assert.ok(auth.tokenRequests.every(({ status }) => status === 200))
  assert.deepEqual(await app.services.db.query(sql`SELECT 1 FROM refresh_leases`), [])
})
