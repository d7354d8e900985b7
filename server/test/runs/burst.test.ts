import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { startEngine } from '../harness/engine.ts'

// Leases are renewed every 500 ms, in the middle of claims and ends: a run that starts meanwhile must not count as
// lost.
const engine = await startEngine({ RUN_LEASE_SECONDS: '2', ORG_CONCURRENCY: '8', RUN_CHECKPOINT_MS: '50' })
await engine.work()

test('in a burst of short runs every one succeeds in its first attempt', async () => {
  const pipelines = await Promise.all(
    Array.from({ length: 10 }, () => engine.createPipeline({ dummy: { records: 3 } })),
  )
  const ids = (
    await Promise.all(Array.from({ length: 12 }, () => Promise.all(pipelines.map((id) => engine.trigger(id)))))
  ).flat()
  for (const id of ids) await engine.finished(id)
  const ends = await engine.services.db.query(
    sql`SELECT status, attempt, lost_attempts, count(*) FROM runs WHERE id = ANY (${ids}::uuid[]) GROUP BY 1, 2, 3`,
  )
  assert.deepEqual(ends, [{ status: 'success', attempt: 1, lost_attempts: 0, count: ids.length }])
})
