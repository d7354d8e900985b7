/** `pipeline_due` finds due pipelines and sorts lists by it: whatever changes a pipeline, it says the same. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pino } from 'pino'
import { sql } from '../../src/database/database.ts'
import { scheduleDuePipelines } from '../../src/scheduler/due-pipelines.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
const { call, person } = engine
const { db, box } = engine.services
const config = { name: 's', source: { name: 'dummy', stream: 'plants' }, destination: { name: 'file' } }

async function create(schedule: string | null, more: Record<string, unknown> = {}): Promise<string> {
  const answer = await call('POST', '/api/pipelines', { as: person, body: { name: 's', config, schedule, ...more } })
  assert.equal(answer.status, 201, answer.text)
  return answer.body.id
}

const timesOf = async (id: string) =>
  (await db.first<{ says: string | null; due: string | null }>(sql`
    SELECT p.next_run_at AS says, d.next_run_at AS due FROM pipelines p JOIN pipeline_due d ON d.pipeline_id = p.id AND d.organization_id = p.organization_id WHERE p.id = ${id}`))!

async function assertDue(id: string, expected: boolean): Promise<void> {
  const { says, due } = await timesOf(id)
  assert.equal(due, says)
  assert.equal(due !== null, expected, `due at ${due}`)
}

test('creating, changing, switching and deleting a pipeline moves its due time', async () => {
  const id = await create('0 0 1 1 *')
  await assertDue(id, true)
  const manual = await create(null)
  await assertDue(manual, false)
  await assertDue(await create('0 0 1 1 *', { enabled: false }), false)
  const change = async (body: object) => {
    const answer = await call('PUT', `/api/pipelines/${id}`, { as: person, body })
    assert.equal(answer.status, 200, answer.text)
  }
  const { due } = await timesOf(id)
  await change({ schedule: '0 0 2 1 *' })
  await assertDue(id, true)
  assert.notEqual((await timesOf(id)).due, due)
  await change({ enabled: false })
  await assertDue(id, false)
  await change({ enabled: true })
  await assertDue(id, true)
  await change({ schedule: null })
  await assertDue(id, false)
  assert.equal((await call('DELETE', `/api/pipelines/${id}`, { as: person })).status, 204)
  assert.equal(await db.first(sql`SELECT 1 FROM pipeline_due WHERE pipeline_id = ${id}`), null)
})

test('a tick moves the due times of all that it starts, and writes no index of pipelines', async () => {
  const ids = [await create('0 0 1 1 *'), await create('0 0 1 1 *'), await create('0 0 1 1 *')]
  await db.execute(sql`UPDATE pipelines SET next_run_at = now() WHERE id = ANY (${ids}::uuid[])`)
  assert.equal(await scheduleDuePipelines(db, box, pino({ level: 'silent' })), ids.length)
  for (const id of ids) {
    await assertDue(id, true)
    assert.ok(Date.parse((await timesOf(id)).due!) > Date.now())
  }
  const indexed = await db.query<{ name: string }>(sql`
    SELECT indexname AS name FROM pg_indexes WHERE schemaname = current_schema() AND tablename = 'pipelines' AND indexdef LIKE '%next_run_at%'`)
  assert.deepEqual(indexed, [])
})

test('what the row of a pipeline says counts, even if its due time is late', async () => {
  const id = await create('0 0 1 1 *')
  await db.execute(sql`UPDATE pipeline_due SET next_run_at = now() WHERE pipeline_id = ${id}`)
  assert.equal(await scheduleDuePipelines(db, box, pino({ level: 'silent' })), 0)
})
