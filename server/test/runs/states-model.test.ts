/** Run states against a small model: random sequences of everything that can happen to runs, including stale attempts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { sql } from '../../src/database/database.ts'
import { finishFailed, handOver, type RunLease, retryLater } from '../../src/runs/finish.ts'
import { recoverLostRuns } from '../../src/runs/recover.ts'
import { MAX_LOST_ATTEMPTS, type RunStatus, transitions } from '../../src/runs/states.ts'
import { finishSuccess } from '../../src/runs/success.ts'
import { claimRuns } from '../harness/claims.ts'
import { startEngine } from '../harness/engine.ts'

const isFinal = (status: RunStatus): boolean => status === 'success' || status === 'failed' || status === 'cancelled'

const engine = await startEngine()
const { call, person, services } = engine
const { db } = services
const LIMIT = 2

interface ModelRun {
  id: string
  pipeline: number
  status: RunStatus
  attempt: number
  lost: number
}

/** What must be true, kept in memory: order within a pipeline, one at a time, limits, and who holds what. */
class Model {
  runs: ModelRun[] = []

  active = () => this.runs.filter((run) => run.status === 'running')
  readyRuns = () =>
    this.runs.filter(
      (run) =>
        run.status === 'pending' &&
        this.runs.find((other) => other.pipeline === run.pipeline && !isFinal(other.status)) === run,
    )
  move(run: ModelRun, to: RunStatus) {
    assert.ok(
      transitions.some((transition) => transition.from === run.status && transition.to === to),
      `${run.status} → ${to} is not in the table`,
    )
    run.status = to
  }
}

interface Real {
  pipelines: string[]
}

type Step = fc.AsyncCommand<Model, Real>
const always = () => true
const outcome = { output: null, cursor: null, records_read: 0, records_written: 0, bytes_written: 0 }

const trigger = (pipeline: number): Step => ({
  check: always,
  toString: () => `trigger ${pipeline}`,
  async run(model, real) {
    const id = await engine.trigger(real.pipelines[pipeline]!)
    model.runs.push({ id, pipeline, status: 'pending', attempt: 0, lost: 0 })
    await compare(model)
  },
})

const claim = (free: number): Step => ({
  check: always,
  toString: () => `claim ${free}`,
  async run(model) {
    const claimed = await claimRuns(db, 'model', { free, perOrganization: LIMIT, leaseSeconds: 60 })
    const may = model.readyRuns()
    assert.equal(claimed.length, Math.min(free, may.length, LIMIT - model.active().length))
    for (const { id, attempt } of claimed) {
      const run = may.find((candidate) => candidate.id === id)
      assert.ok(run, 'only a ready run is taken')
      model.move(run, 'running')
      run.attempt++
      assert.equal(attempt, run.attempt)
    }
    await compare(model)
  },
})

type Ending = 'success' | 'failed' | 'retry' | 'hand over'

/** Ends a run by an attempt that may be an old one: then nothing must happen. */
const end = (pick: number, kind: Ending, stale: boolean): Step => ({
  check: (model) => model.runs.length > 0,
  toString: () => `${kind} ${pick}${stale ? ' by an old attempt' : ''}`,
  async run(model) {
    const run = model.runs[pick % model.runs.length]!
    const held: RunLease = {
      id: run.id,
      organization_id: person.organization_id,
      pipeline_id: '',
      seq: 0,
      attempt: run.attempt - (stale ? 1 : 0),
      worker: '',
    }
    const row = await db.first<{ pipeline_id: string; worker: string | null }>(
      sql`SELECT pipeline_id, worker FROM runs WHERE id = ${run.id}`,
    )
    held.pipeline_id = row!.pipeline_id
    held.worker = row!.worker ?? ''
    const done = await act(kind, held)
    assert.equal(done, run.status === 'running' && !stale)
    if (done) model.move(run, kind === 'success' || kind === 'failed' ? kind : 'pending')
    await compare(model)
  },
})

function act(kind: Ending, held: RunLease): Promise<boolean> {
  if (kind === 'success') return finishSuccess(db, held, { outcome, incremental: false, log: null })
  if (kind === 'failed') return finishFailed(db, held, { error: 'source: told to fail', log: null, counts: null })
  if (kind === 'retry')
    return retryLater(db, held, { error: 'source: told to wait', delaySeconds: 0, log: null, counts: null })
  return handOver(db, held, { log: null })
}

const cancel = (pick: number): Step => ({
  check: (model) => model.runs.length > 0,
  toString: () => `cancel ${pick}`,
  async run(model) {
    const run = model.runs[pick % model.runs.length]!
    const answer = await call('POST', `/api/pipelines/runs/${run.id}/cancel`, { as: person })
    assert.equal(answer.status, isFinal(run.status) ? 409 : 200)
    if (answer.status === 200) model.move(run, 'cancelled')
    await compare(model)
  },
})

const lose = (pick: number): Step => ({
  check: (model) => model.active().length > 0,
  toString: () => `lose ${pick}`,
  async run(model) {
    const run = model.active()[pick % model.active().length]!
    await db.execute(sql`UPDATE runs SET lease_until = now() - interval '1 second' WHERE id = ${run.id}`)
    assert.equal(await recoverLostRuns(db.control, 0), 1)
    run.lost++
    model.move(run, run.lost < MAX_LOST_ATTEMPTS ? 'pending' : 'failed')
    await compare(model)
  },
})

async function compare(model: Model): Promise<void> {
  const rows = await db.query<{
    id: string
    status: RunStatus
    attempt: number
    lost_attempts: number
    ready: boolean
    finished: boolean
    seq: number
  }>(sql`
    SELECT id, status, attempt, lost_attempts, ready, finished_at IS NOT NULL AS finished FROM runs
     WHERE id = ANY (${model.runs.map((run) => run.id)}::uuid[]) ORDER BY seq`)
  const ready = new Set(model.readyRuns())
  assert.deepEqual(
    rows.map((row) => ({ ...row, ready: row.status === 'pending' && row.ready })),
    model.runs.map((run) => ({
      id: run.id,
      status: run.status,
      attempt: run.attempt,
      lost_attempts: run.lost,
      ready: ready.has(run),
      finished: isFinal(run.status),
    })),
  )
}

const pick = fc.nat(20)
const steps = fc.commands(
  [
    fc.nat(2).map(trigger),
    fc.nat(2).map(trigger),
    fc.integer({ min: 1, max: 3 }).map(claim),
    fc.integer({ min: 1, max: 3 }).map(claim),
    fc
      .tuple(pick, fc.constantFrom<Ending>('success', 'failed', 'retry', 'hand over'), fc.boolean())
      .map(([run, kind, stale]) => end(run, kind, stale)),
    pick.map(cancel),
    pick.map(lose),
  ],
  { size: 'medium' },
)

test('whatever happens in whatever order, runs are where the transition table allows', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (commands) => {
      await db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE finished_at IS NULL`)
      const pipelines = [
        await engine.createPipeline({}),
        await engine.createPipeline({}),
        await engine.createPipeline({}),
      ]
      await fc.asyncModelRun(() => ({ model: new Model(), real: { pipelines } }), commands)
    }),
    { numRuns: 40 },
  )
})
