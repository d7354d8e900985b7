/** What the operator reads about runs in the service log. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { pino } from 'pino'
import { sql } from '../../src/database/database.ts'
import { recoverLostRuns } from '../../src/runs/recover.ts'
import { startWorker } from '../../src/runs/worker.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
const lines: { level: number; msg: string; run_id?: string; pipeline_id?: string }[] = []
const log = pino({ level: 'info' }, { write: (text: string) => void lines.push(JSON.parse(text)) })
const worker = await startWorker({ ...engine.services, log })
after(() => worker.stop(AbortSignal.abort()))
const about = (run: string) => lines.filter((line) => line.run_id === run)

test('a failed run is one line, and a successful one none', async () => {
  const pipeline = await engine.createPipeline({ dummy: { records: 10, fail_after: 3 } })
  const failed = await engine.trigger(pipeline)
  const fine = await engine.trigger(await engine.createPipeline({}))
  const { error } = await engine.finished(failed)
  await engine.finished(fine)
  // Written right after the row; the next run on the same worker comes later.
  await engine.finished(await engine.trigger(await engine.createPipeline({})))
  assert.deepEqual(
    about(failed).map(({ msg, pipeline_id }) => ({ msg, pipeline_id })),
    [{ msg: `run failed: ${error}`, pipeline_id: pipeline }],
  )
  assert.deepEqual(about(fine), [])
})

test('a run that is given up because its workers were lost is logged too', async () => {
  await worker.stop(AbortSignal.abort())
  const run = await engine.trigger(await engine.createPipeline({}))
  await engine.services.db.execute(
    sql`UPDATE runs SET status = 'running', lost_attempts = 2, lease_until = now() - interval '1 minute' WHERE id = ${run}`,
  )
  const told: string[] = []
  await recoverLostRuns(engine.services.db.control, 0, ({ id }, error) => void told.push(`${id} ${error}`))
  assert.equal(told.length, 1)
  assert.match(told[0]!, new RegExp(`^${run} internal: .*lost 3 times`))
})
