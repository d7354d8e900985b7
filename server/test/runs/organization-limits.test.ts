/** Limits for one organization: pipelines, pending runs, the code of its sources. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import type { PinnedConfig } from '../../src/runs/pinned-config.ts'
import { readySkippedRuns } from '../../src/runs/recover.ts'
import { runPlace } from '../../src/runs/trigger.ts'
import { writeSource } from '../cell/harness.ts'
import { registerPerson } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine({ ORG_MAX_PIPELINES: '5', ORG_MAX_PENDING_RUNS: '3' })
const { call, person, services } = engine
const { db, box } = services
const config = {
  name: 'test',
  source: { name: 'dummy', stream: 'creatures', config: {} },
  destination: { name: 'file', config: {} },
}

test('pipelines above ORG_MAX_PIPELINES are 409, however they are created, even concurrently', async () => {
  const create = () => call('POST', '/api/pipelines', { as: person, body: { name: 'p', config } })
  const answers = await Promise.all(Array.from({ length: 8 }, create))
  assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 201, 201, 201, 201, 409, 409, 409])
  const made = answers.find(({ status }) => status === 201)!.body
  const copy = await call('POST', `/api/pipelines/${made.id}/copy`, { as: person })
  assert.equal(copy.status, 409)
  assert.match(copy.body.detail, /has 5 pipelines, and the limit is 5/)
  await call('DELETE', `/api/pipelines/${made.id}`, { as: person })
  const { stream: _stream, ...source } = config.source
  const bulk = { config: { ...config, source }, streams: ['creatures', 'plants'] }
  assert.equal((await call('POST', '/api/pipelines/bulk', { as: person, body: bulk })).status, 409)
  const other = await registerPerson(engine, 'Other')
  assert.equal((await call('POST', '/api/pipelines', { as: other, body: { name: 'p', config } })).status, 201)
})

test('pending runs above ORG_MAX_PENDING_RUNS are 429 with Retry-After', async () => {
  const pipeline = await engine.createPipeline({})
  const trigger = () => call('POST', `/api/pipelines/${pipeline}/run`, { as: person })
  const answers = await Promise.all(Array.from({ length: 5 }, trigger))
  assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 201, 201, 429, 429])
  const refused = answers.find(({ status }) => status === 429)!
  assert.equal(refused.headers['retry-after'], '60')
  assert.match(refused.body.detail, /your organization already has 3 pending runs/)
  await db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now()`)
  assert.equal((await trigger()).status, 201)
  await db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE status = 'pending'`)
})

test('a run stores the version of its custom source, not its code, and runs that version', async () => {
  const owner = await registerPerson(engine, 'Author')
  const code = (word: string) => writeSource(`yield SourceRecord("1", {"word": "${word}"})`)
  const body = { name: 'Words', source_name: 'words', code: code('first') }
  const source = await call('POST', '/api/custom-sources', { as: owner, body })
  assert.equal(source.status, 201, source.text)
  const pipeline = await engine.createPipeline({ source: { name: 'words', stream: 'a' } }, owner)
  const run = await engine.trigger(pipeline, owner)
  const row = await db.first<{ config_box: Buffer }>(sql`SELECT config_box FROM runs WHERE id = ${run}`)
  const pinned = box.open<PinnedConfig>(runPlace(owner.organization_id, run), row!.config_box)
  assert.deepEqual('config' in pinned && pinned.config.source.custom, { id: source.body.id, version: 1 })
  const changed = { code: code('second') }
  assert.equal((await call('PUT', `/api/custom-sources/${source.body.id}`, { as: owner, body: changed })).status, 200)
  const later = await engine.trigger(
    await engine.createPipeline({ source: { name: 'words', stream: 'a' } }, owner),
    owner,
  )
  await engine.work()
  assert.equal((await engine.finished(run)).status, 'success')
  assert.equal((await engine.finished(later)).status, 'success')
  const output = (id: string) => call('GET', `/api/pipelines/runs/${id}/output`, { as: owner })
  assert.match((await output(run)).text, /"word":"first"/)
  assert.match((await output(later)).text, /"word":"second"/)
})

test('a pending run whose custom source was deleted says so', async () => {
  const owner = await registerPerson(engine, 'Remover')
  const body = { name: 'Gone', source_name: 'gone', code: writeSource('yield SourceRecord("1", {})') }
  const source = await call('POST', '/api/custom-sources', { as: owner, body })
  const pipeline = await engine.createPipeline({ source: { name: 'gone', stream: 'a' } }, owner)
  // The first one keeps the second one pending.
  await db.execute(sql`
    INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, status, lease_until, attempt)
    VALUES (${owner.organization_id}, ${pipeline}, 'manual', true, 'running', now() + interval '1 hour', 1)`)
  const run = await engine.trigger(pipeline, owner)
  assert.equal((await call('DELETE', `/api/custom-sources/${source.body.id}`, { as: owner })).status, 204)
  await db.execute(
    sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE pipeline_id = ${pipeline} AND status = 'running'`,
  )
  await readySkippedRuns(db)
  const ended = await engine.finished(run)
  assert.equal(ended.status, 'failed')
  assert.match(ended.error!, /^config: The source 'gone' was deleted after this run was triggered/)
})
