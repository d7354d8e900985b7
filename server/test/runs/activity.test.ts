/** The last runs of many pipelines at once, as the list of the console shows them. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { registerPerson } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
const { db } = engine.services

const activity = (query: string, as = engine.person) => engine.call('GET', `/api/pipelines/activity?${query}`, { as })

/** Runs without a worker: one success a minute, the newest failed. */
async function withRuns(count: number): Promise<string> {
  const pipeline = await engine.createPipeline({})
  await db.execute(sql`
    INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, status, created_at, started_at, finished_at, records_written)
    SELECT organization_id, id, 'schedule', false, CASE WHEN n = ${count} THEN 'failed' ELSE 'success' END,
           timestamptz '2026-01-01Z' + n * interval '1 minute', timestamptz '2026-01-01Z' + n * interval '1 minute',
           timestamptz '2026-01-01Z' + n * interval '1 minute' + n * interval '1 second', n
      FROM pipelines, generate_series(1, ${count}::int) n WHERE id = ${pipeline} ORDER BY n`)
  return pipeline
}

test('the last runs of each pipeline come newest first, in the order of the ids', async () => {
  const [many, few, none] = [await withRuns(30), await withRuns(2), await engine.createPipeline({})]
  const answer = await activity(`ids=${few},${none},${many.toUpperCase()}`)
  assert.equal(answer.status, 200, answer.text)
  assert.deepEqual(
    answer.body.map(({ pipeline_id, runs }: { pipeline_id: string; runs: object[] }) => [pipeline_id, runs.length]),
    [
      [few, 2],
      [none, 0],
      [many, 20],
    ],
  )
  const [, empty, full] = answer.body
  assert.deepEqual([empty.last_success_at, empty.next_run_at], [null, null])
  assert.equal(full.last_success_at, '2026-01-01T00:29:29.000000Z', 'the newest run failed')
  const { id, ...newest } = full.runs[0]
  assert.match(id, /^[0-9a-f-]{36}$/)
  assert.deepEqual(newest, {
    status: 'failed',
    created_at: '2026-01-01T00:30:00.000000Z',
    started_at: '2026-01-01T00:30:00.000000Z',
    finished_at: '2026-01-01T00:30:30.000000Z',
    records_written: 30,
  })
  assert.equal((await activity(`ids=${many}&runs=30`)).body[0].runs.length, 30)
})

test('pipelines of another organization, and unknown ones, are left out', async () => {
  const pipeline = await withRuns(1)
  const stranger = await registerPerson(engine, 'Stranger')
  assert.deepEqual((await activity(`ids=${pipeline},${randomUUID()}`, stranger)).body, [])
})

test('a request that would return too much, or names no pipelines, is refused', async () => {
  const id = randomUUID()
  const ids = Array.from({ length: 100 }, () => randomUUID()).join(',')
  assert.match((await activity(`ids=${ids}&runs=21`)).body.detail, /at most 20 for 100 pipelines/)
  for (const query of [
    '',
    'ids=',
    'ids=x',
    `ids=${id},`,
    `ids=${ids},${id}`,
    `ids=${id}&runs=0`,
    `ids=${id}&runs=1001`,
  ])
    assert.equal((await activity(query)).status, 400, query)
})
