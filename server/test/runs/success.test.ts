/** Successes that are written together: each counts for itself, and none waits for another's lock. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Connections, type Statement, sql } from '../../src/database/database.ts'
import { NIL_UUID } from '../../src/database/lists.ts'
import type { Claim } from '../../src/runs/claim.ts'
import { createSuccessQueue, type SuccessfulEnding } from '../../src/runs/success.ts'
import { claimRuns } from '../harness/claims.ts'
import { startEngine } from '../harness/engine.ts'
import { untilWaitingForLocks } from '../harness/lock-waits.ts'

const engine = await startEngine()
const { db } = engine.services
const outcome = { output: null, cursor: null, records_read: 1, records_written: 1, bytes_written: 1 }
const ending: SuccessfulEnding = { outcome, incremental: false, log: null }
const limits = { free: 20, perOrganization: 20, leaseSeconds: 60 }

/** Runs of pipelines of their own, claimed, and a queue whose first statement waits, so that what follows goes together. */
async function prepare(count: number) {
  for (let index = 0; index < count; index++) await engine.trigger(await engine.createPipeline({}))
  const runs = await claimRuns(db, 'test', limits)
  assert.equal(runs.length, count)
  const opened = Promise.withResolvers<void>()
  const statements: Statement[] = []
  const slow: Connections = {
    ...db,
    async first(statement) {
      statements.push(statement)
      if (statements.length === 1) await opened.promise
      return db.first(statement)
    },
  }
  return { runs, finish: createSuccessQueue(slow), statements, open: opened.resolve }
}

test('while one end is on its way, all that follow go in one statement, and it claims for all their slots', async () => {
  const { runs, finish, statements, open } = await prepare(5)
  for (const { pipeline_id } of runs) await engine.trigger(pipeline_id)
  const taken: Claim[] = []
  const request = { worker: 'test', ...limits, free: 1, after: NIL_UUID }
  const next = { request, take: (claim: Claim) => void taken.push(claim), lost() {} }
  const ended = runs.map((run) => finish(run, { ...ending, next }))
  open()
  assert.deepEqual(await Promise.all(ended), [true, true, true, true, true])
  assert.equal(statements.length, 2)
  assert.equal(taken.length, 5, 'each slot is answered')
  assert.equal(new Set(taken.flatMap(({ run_ids }) => run_ids)).size, 5, 'and each run is claimed once')
  await db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE status <> 'success'`)
})

test('a run that was taken over, or is locked, does not hold up the others', async () => {
  const { runs, finish, open } = await prepare(4)
  const [first, lost, locked, other] = runs as [(typeof runs)[0], ...typeof runs]
  await db.execute(sql`UPDATE runs SET attempt = attempt + 1, worker = 'another' WHERE id = ${lost!.id}`)
  const release = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  const holding = db.transaction(async (tx) => {
    await tx.execute(sql`SELECT 1 FROM pipelines WHERE id = ${locked!.pipeline_id} FOR UPDATE`)
    held.resolve()
    await release.promise
  })
  await held.promise
  const ended = [first, lost!, locked!, other!].map((run) => finish(run, ending))
  open()
  assert.deepEqual(await Promise.all([ended[0], ended[1], ended[3]]), [true, false, true])
  await untilWaitingForLocks(db)
  assert.equal((await engine.run(locked!.id)).status, 'running')
  release.resolve()
  await holding
  assert.equal(await ended[2], true)
  assert.equal((await engine.run(lost!.id)).status, 'running', 'whoever took it over still has it')
  await db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE status <> 'success'`)
})

test('one that the database refuses fails alone', async () => {
  const { runs, finish, open } = await prepare(3)
  const refused = { ...ending, outcome: { ...outcome, records_read: 2 ** 70 } }
  const ended = runs.map((run, index) => finish(run, index === 1 ? refused : ending))
  open()
  const results = await Promise.allSettled(ended)
  assert.deepEqual(
    results.map((result) => (result.status === 'fulfilled' ? result.value : 'refused')),
    [true, 'refused', true],
  )
})

test('a line with half of a character ends like any other', async () => {
  const { runs, finish, open } = await prepare(2)
  const log = { line_count: 1, lines: 'INFO  half of one: \ud83d' }
  const ended = runs.map((run) => finish(run, { ...ending, log }))
  open()
  assert.deepEqual(await Promise.all(ended), [true, true])
  assert.match(await engine.logs(runs[1]!.id), /half of one: \ufffd/)
})
