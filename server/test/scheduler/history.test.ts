/** What is kept of old runs and of the audit log. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { cleanUpHourly, cleanUpOften } from '../../src/scheduler/cleanup.ts'
import { forgetOldAudit, forgetOldRuns } from '../../src/scheduler/history.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
const { db, blobs } = engine.services

/** Runs that ended so many days ago, oldest first. */
const insertRuns = async (statuses: [status: string, days: number][], pipeline?: string): Promise<string[]> => {
  const owner = pipeline ?? (await engine.createPipeline({}))
  const ids: string[] = []
  for (const [status, days] of statuses) {
    const row = await db.first<{ id: string }>(sql`
      INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, status, finished_at, attempt)
      SELECT organization_id, id, 'manual', true, ${status}, now() - make_interval(days => ${days}), 1 FROM pipelines WHERE id = ${owner}
      RETURNING id`)
    ids.push(row!.id)
  }
  return ids
}
const left = async (ids: string[]): Promise<number[]> => {
  const rows = await db.query<{ id: string }>(sql`SELECT id FROM runs WHERE id = ANY(${ids}::uuid[])`)
  return ids.flatMap((id, at) => (rows.some((row) => row.id === id) ? [at] : []))
}

test('runs that ended long ago are deleted, except the last one and the last success of each pipeline', async () => {
  const quiet = await insertRuns([
    ['success', 90],
    ['success', 80],
    ['failed', 70],
    ['failed', 60],
  ])
  const busy = await insertRuns([
    ['success', 90],
    ['failed', 40],
    ['success', 20],
    ['cancelled', 10],
  ])
  assert.equal(await forgetOldRuns(db, 30), 4)
  assert.deepEqual(
    [await left(quiet), await left(busy)],
    [
      [1, 3],
      [2, 3],
    ],
  )
  assert.equal(await forgetOldRuns(db, 30), 0)
})

test('more than one page of them is deleted, with their blobs and logs, and nothing of others', async () => {
  const pipeline = await engine.createPipeline({})
  const [last] = await insertRuns([['success', 1]], pipeline)
  await db.execute(sql`
    INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, status, finished_at, attempt, seq)
    OVERRIDING SYSTEM VALUE
    SELECT organization_id, id, 'manual', true, 'success', now() - interval '50 days', 1, -n FROM pipelines, generate_series(1, 1200) n WHERE id = ${pipeline}`)
  const old = (await db.first<{ id: string; organization_id: string }>(
    sql`SELECT id, organization_id FROM runs WHERE pipeline_id = ${pipeline} AND id <> ${last!} LIMIT 1`,
  ))!
  const [gone, kept] = [old.id, last!].map((id) => `${old.organization_id}/runs/${id}/1-1.part`)
  for (const key of [gone!, kept!]) await blobs.put(key, Buffer.from('x'))
  await db.execute(
    sql`INSERT INTO run_log_chunks (run_id, number, first_line, line_count, lines) VALUES (${old.id}, 1, 1, 1, 'x')`,
  )
  const services = { ...engine.services, config: { ...engine.services.config, RUN_HISTORY_DAYS: 30 } }
  await cleanUpHourly(services)
  assert.deepEqual(await db.query(sql`SELECT id FROM runs WHERE pipeline_id = ${pipeline}`), [{ id: last }])
  await cleanUpOften(services)
  assert.deepEqual([await blobs.stat(gone!), (await blobs.stat(kept!)) !== null], [null, true])
})

test('without a setting nothing is deleted', async () => {
  const old = await insertRuns([
    ['success', 9000],
    ['success', 8000],
  ])
  await cleanUpHourly(engine.services)
  assert.deepEqual(await left(old), [0, 1])
})

test('old entries of the audit log are deleted, those of deleted organizations too', async () => {
  const { organization_id } = (await db.first<{ organization_id: string }>(sql`SELECT organization_id FROM pipelines`))!
  await db.execute(sql`DELETE FROM audit_log`)
  await db.execute(sql`
    INSERT INTO audit_log (organization_id, at, action, object_type)
    SELECT o, now() - make_interval(days => d), 'x', 'x' FROM (VALUES (${organization_id}::uuid), (NULL)) AS os (o), generate_series(1, 700) d`)
  assert.equal(await forgetOldAudit(db, 30), 2 * 670 + 2)
  assert.equal((await db.first<{ n: number }>(sql`SELECT count(*)::int AS n FROM audit_log`))!.n, 58)
})
