/** Runs whose provider rotates the refresh token at every use and revokes the grant when an old one is used. */
import assert from 'node:assert/strict'
import { after, beforeEach, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import type { Authentication } from '../../src/connectors/contract.ts'
import { sql } from '../../src/database/database.ts'
import type { FromExecutor } from '../../src/executors/messages.ts'
import { findReportFault } from '../../src/executors/reports.ts'
import type { PinnedConfig } from '../../src/runs/pinned-config.ts'
import { runPlace } from '../../src/runs/trigger.ts'
import { writeSource } from '../cell/harness.ts'
import { startServer } from '../egress/http-server.ts'
import { type AuthServer, startAuthServer } from '../harness/auth-server.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.0/8', WORKER_CONCURRENCY: '4' })
const { db, box } = engine.services
const auth: AuthServer = await startAuthServer()
const server = await startServer()
after(() => auth.close())
await engine.work()

const ROWS = '{"id":1}\n{"id":2}\n'
const url = `${server.base}/rows.jsonl`
beforeEach(() => {
  auth.reset()
  auth.guard('oauth2_refresh_token')
  server.on('/rows.jsonl', (request, response) => {
    if (auth.admits(request.headers)) response.end(ROWS)
    else response.writeHead(401).end()
  })
})

const inline = (authentication: Authentication, more: object = {}) => ({
  source: { name: 'file', stream: 'rows', authentication, config: { url } },
  ...more,
})

async function succeed(pipelineId: string): Promise<string> {
  const id = await engine.trigger(pipelineId)
  const run = await engine.finished(id)
  assert.equal(run.status, 'success', run.error ?? '')
  return id
}

async function tokenOf(path: string): Promise<string> {
  const { config } = (await engine.call('GET', path, { as: engine.person })).body
  return (config.source ?? config).authentication.params.refresh_token
}

async function saveConnector(authentication: Authentication): Promise<string> {
  const body = { name: 'shared', connector_name: 'file', config: { authentication, config: { url } } }
  const answer = await engine.call('POST', '/api/saved/sources', { as: engine.person, body })
  assert.equal(answer.status, 201, answer.text)
  return answer.body.id
}

test('a pipeline continues with the rotated token, run after run', async () => {
  const authentication = auth.good('oauth2_refresh_token')
  const first = String(authentication.params.refresh_token)
  const id = await engine.createPipeline(inline(authentication))
  for (let round = 1; round <= 3; round++) {
    await succeed(id)
    assert.equal(auth.tokenRequests.length, round)
    assert.equal(await tokenOf(`/api/pipelines/${id}`), auth.currentToken(first))
  }
  assert.deepEqual(await db.query(sql`SELECT 1 FROM refresh_leases`), [])
})

test('concurrent pipelines that share a saved connector do not revoke the grant', async () => {
  const authentication = auth.good('oauth2_refresh_token')
  const saved = await saveConnector(authentication)
  const source = { saved_connector_id: saved, stream: 'rows' }
  const pipelines = await Promise.all([1, 2, 3, 4].map(() => engine.createPipeline({ source })))
  await Promise.all(pipelines.map(succeed))
  assert.deepEqual(
    auth.tokenRequests.map(({ status }) => status),
    [200, 200, 200, 200],
  )
  const current = auth.currentToken(String(authentication.params.refresh_token))
  assert.equal(await tokenOf(`/api/saved/sources/${saved}`), current)
})

test('a run triggered before a rotation uses the stored token, not the pinned one', async () => {
  const authentication = auth.good('oauth2_refresh_token')
  const saved = await saveConnector(authentication)
  const id = await engine.createPipeline({ source: { saved_connector_id: saved, stream: 'rows' } })
  const runs = await Promise.all([1, 2, 3].map(() => engine.trigger(id)))
  for (const run of runs) assert.equal((await engine.finished(run)).status, 'success')
})

test('a later attempt has the rotated token, also in the run, and a lost connection does not lose it', async () => {
  const authentication = auth.good('oauth2_refresh_token')
  const saved = await saveConnector(authentication)
  const id = await engine.createPipeline({
    source: { saved_connector_id: saved, stream: 'rows' },
    run: { max_attempts: 2, backoff_seconds: 1 },
  })
  let served = 0
  server.on('/rows.jsonl', (request, response) => {
    if (!auth.admits(request.headers)) response.writeHead(401).end()
    else if (served++ === 0) response.writeHead(503).end()
    else response.end(ROWS)
  })
  const run = await engine.trigger(id)
  const waiting = await engine.until(run, ({ status, error }) => status === 'pending' && error !== null)
  assert.equal(waiting.attempt, 1)
  const current = auth.currentToken(String(authentication.params.refresh_token))
  const row = await db.first<{ config_box: Buffer }>(sql`SELECT config_box FROM runs WHERE id = ${run}`)
  const pinned = box.open<PinnedConfig>(runPlace(engine.person.organization_id, run), row!.config_box)
  assert.equal('config' in pinned && pinned.config.source.authentication.params.refresh_token, current)
  await engine.call('DELETE', `/api/saved/sources/${saved}`, { as: engine.person })
  const ended = await engine.finished(run)
  assert.deepEqual([ended.status, ended.attempt], ['success', 2], ended.error ?? '')
})

test('a token that the user saves during a run is kept', async () => {
  const authentication = auth.good('oauth2_refresh_token')
  const fresh = auth.good('oauth2_refresh_token')
  const id = await engine.createPipeline(inline(authentication))
  let changed = 0
  // Between reading the token and the end of its exchange, the user saves another one.
  auth.beforeToken = async () => {
    if (changed++ > 0) return
    const config = { name: 'test', ...inline(fresh), destination: { name: 'file', config: {} } }
    const answer = await engine.call('PUT', `/api/pipelines/${id}`, { as: engine.person, body: { config } })
    assert.equal(answer.status, 200, answer.text)
  }
  await succeed(id)
  assert.equal(changed, 1)
  assert.equal(await tokenOf(`/api/pipelines/${id}`), fresh.params.refresh_token)
  await succeed(id)
})

test('a run cancelled in the middle of an exchange still stores the new token, and ends soon', async () => {
  const authentication = auth.good('oauth2_refresh_token')
  const id = await engine.createPipeline(inline(authentication))
  const asked = Promise.withResolvers<void>()
  const cancelled = Promise.withResolvers<void>()
  auth.beforeToken = async () => {
    asked.resolve()
    await cancelled.promise
  }
  const run = await engine.trigger(id)
  await asked.promise
  const answer = await engine.call('POST', `/api/pipelines/runs/${run}/cancel`, { as: engine.person })
  assert.equal(answer.status, 200, answer.text)
  cancelled.resolve()
  const first = String(authentication.params.refresh_token)
  await untilTrue(async () => (await tokenOf(`/api/pipelines/${id}`)) !== first)
  assert.equal(await tokenOf(`/api/pipelines/${id}`), auth.currentToken(first))
  assert.equal((await engine.finished(run)).status, 'cancelled')
  await untilTrue(async () => (await db.query(sql`SELECT 1 FROM refresh_leases`)).length === 0)
})

test('a run whose time ends in the middle of an exchange still stores the new token', async (t) => {
  const { services } = engine
  const { RUN_TIMEOUT_MINUTES } = services.config
  const ended = Promise.withResolvers<void>()
  services.traces = { add: () => ended.resolve(), close: async () => {} }
  t.after(() => {
    services.traces = null
    services.config.RUN_TIMEOUT_MINUTES = RUN_TIMEOUT_MINUTES
  })
  const authentication = auth.good('oauth2_refresh_token')
  const id = await engine.createPipeline(inline(authentication, { run: { max_attempts: 1 } }))
  // The provider answers as soon as the time is over.
  auth.beforeToken = () => ended.promise
  services.config.RUN_TIMEOUT_MINUTES = 0.1
  const run = await engine.finished(await engine.trigger(id))
  assert.match(run.error!, /^timeout: /)
  assert.equal(auth.tokenRequests.length, 1)
  const first = String(authentication.params.refresh_token)
  assert.notEqual(auth.currentToken(first), first)
  assert.equal(await tokenOf(`/api/pipelines/${id}`), auth.currentToken(first))
})

async function untilTrue(what: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 10_000
  while (!(await what())) {
    assert.ok(Date.now() < deadline, 'it does not happen')
    await delay(20)
  }
}

test('what an executor reports as a token must be a token', () => {
  const run = { id: 'a', organization_id: 'b' }
  const say = (message: object) => findReportFault(run, message as FromExecutor)
  const long = 'x'.repeat(300_000)
  assert.equal(say({ type: 'refresh_begin', id: 1, held: 'r0' }), null)
  assert.equal(say({ type: 'refresh_end', id: 1, used: 'r0', rotated: null }), null)
  assert.equal(say({ type: 'refresh_end', id: 1, used: 'r0', rotated: 'r1' }), null)
  const path = ['settings', 'refresh_token']
  assert.equal(say({ type: 'refresh_begin', id: 1, held: 'r0', path }), null)
  const also = [{ path: ['access_token'], value: 'a1' }]
  assert.equal(say({ type: 'refresh_end', id: 1, used: 'r0', rotated: 'r1', kept: { path, also } }), null)
  for (const wrong of [[], 'a', [5], ['__proto__'], Array(11).fill('a'), ['x'.repeat(201)], null]) {
    const end = { type: 'refresh_end', id: 1, used: 'r0', rotated: 'r1' }
    assert.equal(say({ type: 'refresh_begin', id: 1, held: 'r0', path: wrong }), 'a refresh token')
    assert.equal(say({ ...end, kept: { path: wrong, also } }), 'a refresh token')
    assert.equal(say({ ...end, kept: { path, also: [{ path: wrong, value: 'a1' }] } }), 'a refresh token')
  }
  for (const wrong of ['', 5, {}, undefined, long, 'nul \0', '\ud800']) {
    assert.equal(say({ type: 'refresh_begin', id: 1, held: wrong }), 'a refresh token')
    assert.equal(say({ type: 'refresh_end', id: 1, used: wrong, rotated: null }), 'a refresh token')
    assert.equal(say({ type: 'refresh_end', id: 1, used: 'r0', rotated: wrong }), 'a refresh token')
  }
})

test('a token that a custom source prints is masked in the log of its run', async () => {
  const code = writeSource(`
answer = self.http.get("${url}")
print("it said", answer.text)
yield {"status": answer.status_code}`)
  const body = { name: 'Printer', source_name: 'printer', code }
  const made = await engine.call('POST', '/api/custom-sources', { as: engine.person, body })
  assert.equal(made.status, 201, made.text)
  server.on('/rows.jsonl', (request, response) => response.end(request.headers.authorization))
  const authentication = auth.good('oauth2_refresh_token')
  const run = await succeed(await engine.createPipeline({ source: { name: 'printer', stream: 'a', authentication } }))
  assert.match(await engine.logs(run), /it said Bearer \*{8}$/m)
})

test('no token is in a log, an error or the queue, whatever a server does with it', async () => {
  const authentication = auth.good('oauth2_refresh_token')
  // It sends back what it received, as a line that is not JSON.
  server.on('/rows.jsonl', (request, response) => response.end(`${request.headers.authorization}`))
  const id = await engine.createPipeline(inline(authentication))
  const run = await engine.trigger(id)
  const ended = await engine.finished(run)
  assert.equal(ended.status, 'failed')
  const row = await db.first<{ whole: string }>(sql`SELECT to_jsonb(r)::text AS whole FROM runs r WHERE id = ${run}`)
  const texts = `${await engine.logs(run)}${ended.error}${row!.whole}`
  assert.match(texts, /Line 1 of the file is not valid JSON/)
  for (const secret of auth.secrets) assert.ok(!texts.includes(secret), 'a secret was said')
})
