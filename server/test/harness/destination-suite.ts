/** What every destination must keep: see conformance.ts. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Destination, Sync, WriteMode } from '../../src/connectors/contract.ts'
import type { Job, Outcome } from '../../src/runs/execute.ts'
import { testChecks } from './check-suite.ts'
import {
  type DestinationFixture,
  nastyRows,
  type OpenDestinationFixture,
  plainRows,
  type Settings,
} from './conformance.ts'
import { testCrashes } from './crash-suite.ts'
import { assertSameRows } from './ledger.ts'
import { type LineSourceOptions, lineSource } from './line-source.ts'
import { type Attempt, type AttemptOptions, openRunBench, type RunBench } from './run-bench.ts'
import { createSaid, type Said } from './said.ts'

/** One destination under test: its bench, its fixture, and the handful of moves that all tests are made of. */
export interface Trial {
  destination: Destination
  bench: RunBench
  fixture: DestinationFixture
  said: Said
  /** A run of these rows into the target. */
  job(target: Settings, rows: readonly string[], sync: Partial<Sync>, options?: LineSourceOptions): Job
  start(job: Job, options?: AttemptOptions): Attempt
  run(job: Job, options?: AttemptOptions): Promise<Outcome>
  /** See RunBench. */
  crash(job: Job, point: string, nth: number, options?: AttemptOptions): Promise<boolean>
  /** Runs that go on with the pipeline of an earlier job, from other rows. */
  follow(job: Job, rows: readonly string[], sync?: Partial<Sync>, options?: LineSourceOptions): Job
  assertRows(target: Settings, outcome: Outcome | null, expected: readonly string[], message?: string): Promise<void>
}

export function testDestination(destination: Destination, openFixture: OpenDestinationFixture): void {
  describe(`destination ${destination.name}`, () => {
    const said = createSaid()
    let trial: Trial
    before(async () => {
      const bench = await openRunBench()
      trial = createTrial(destination, bench, await openFixture(bench), said)
    })
    after(async () => {
      await trial?.fixture.close()
      await trial?.bench.close()
    })
    testChecks({ connector: destination, fixture: () => trial.fixture, bench: () => trial.bench, said })
    for (const write of destination.capabilities.write) testWriteMode(destination, write, () => trial)
    testValues(destination, () => trial)
    testCrashes(destination, () => trial)
    it('never said a secret', () => said.assertNoSecret(trial.fixture.secrets))
  })
}

function createTrial(destination: Destination, bench: RunBench, fixture: DestinationFixture, said: Said): Trial {
  const begin = (job: Job, options: AttemptOptions = {}): Attempt => {
    const attempt = bench.start(job, { destination, ...options })
    attempt.done.catch(said.addError).finally(() => attempt.log.forEach(said.add))
    return attempt
  }
  const job = (target: Settings, rows: readonly string[], sync: Partial<Sync>, options?: LineSourceOptions): Job =>
    bench.job({
      source: lineSource(rows, options),
      destination: { name: destination.name, config: target.config },
      sync: { ...keysFor(sync.write), ...sync },
    })
  return {
    destination,
    bench,
    fixture,
    said,
    job,
    start: begin,
    run: (wanted, options) => begin(wanted, options).done,
    crash: (wanted, point, nth, options) => bench.crash(wanted, point, nth, { destination, ...options }),
    follow(earlier, rows, sync = {}, options = {}) {
      const fresh = job({ config: earlier.destination.config }, rows, { ...earlier.sync, ...sync }, options)
      return { ...fresh, pipeline_id: earlier.pipeline_id, state: earlier.state }
    },
    async assertRows(target, outcome, expected, message) {
      const rows = await fixture.read(target, outcome, bench)
      const keep = fixture.expected?.bind(fixture) ?? ((row: string) => row)
      assertSameRows(rows, expected.map(keep), message)
    },
  }
}

export function keysFor(write: WriteMode | undefined): Partial<Sync> {
  return write === 'upsert' ? { primary_key: ['id'] } : {}
}

function testWriteMode(destination: Destination, write: WriteMode, trial: () => Trial): void {
  const keepsRows = destination.capabilities.commits === 'mark'

  for (const resumable of [true, false]) {
    for (const count of [0, 1, 1000]) {
      it(`${write}: ${count} records arrive once, from a source that ${resumable ? 'can' : 'can not'} resume`, async () => {
        const { fixture, job, run, assertRows } = trial()
        const target = await fixture.target()
        const outcome = await run(job(target, plainRows(count), { write }, { resumable }), { checkpointRecords: 300 })
        assert.equal(outcome.records_read, count)
        assert.equal(outcome.records_written, count)
        await assertRows(target, outcome, plainRows(count))
      })
    }
  }

  it(`${write}: a second run does to the rows of the first what the mode says`, async () => {
    const { fixture, job, run, follow, assertRows } = trial()
    const target = await fixture.target()
    const first = job(target, plainRows(20), { write })
    await run(first)
    const changed = plainRows(15, 11).map((row) => row.replace('"row', '"changed'))
    const outcome = await run(follow(first, changed))
    const kept = { append: plainRows(20), replace: [], upsert: plainRows(10) }[write]
    await assertRows(target, outcome, keepsRows ? [...kept, ...changed] : changed)
  })

  if (write === 'replace' && keepsRows) {
    it('replace: an empty read leaves the old rows, unless the pipeline allows it', async () => {
      const { fixture, job, start, run, follow, assertRows } = trial()
      const target = await fixture.target()
      const first = job(target, plainRows(20), { write })
      await run(first)
      const careful = start(follow(first, []))
      await assertRows(target, await careful.done, plainRows(20))
      assert.ok(
        careful.log.some((line) => line.startsWith('warn ')),
        'the log warns of it',
      )
      await assertRows(target, await run(follow(first, [], { allow_empty: true })), [])
    })
  }

  if (write === 'upsert') {
    it('upsert: of several records with one key the last one wins, within a checkpoint and across', async () => {
      const { fixture, job, run, assertRows } = trial()
      const target = await fixture.target()
      const rows = [...plainRows(30), ...plainRows(30).map((row) => row.replace('"row', '"newer')), ...plainRows(5)]
      const outcome = await run(job(target, rows, { write }, { pageRecords: 7 }), { checkpointRecords: 21 })
      await assertRows(target, outcome, [...rows.slice(60), ...rows.slice(35, 60)])
    })
  }
}

function testValues(destination: Destination, trial: () => Trial): void {
  const write = destination.capabilities.write[0]!

  it('keeps hard values as they are', async () => {
    const { fixture, job, run, assertRows } = trial()
    const target = await fixture.target()
    await assertRows(target, await run(job(target, nastyRows(), { write }, { pageRecords: 3 })), nastyRows())
  })

  it('takes fields that come, go and widen in the middle of a run', async () => {
    const { fixture, job, run, assertRows } = trial()
    const target = await fixture.target()
    const rows = [
      ...Array.from({ length: 30 }, (_, at) => `{"id":${at},"size":${at},"gone":"g${at}"}`),
      ...Array.from(
        { length: 30 },
        (_, at) => `{"id":${at + 30},"size":${at}.5,"extra":{"n":${at}},"late":"2024-01-01T00:00:00Z"}`,
      ),
      ...Array.from({ length: 30 }, (_, at) => `{"id":${at + 60},"size":9223372036854775808${at},"extra":"text now"}`),
    ]
    const options = { pageRecords: 10 }
    await assertRows(target, await run(job(target, rows, { write }, options), { checkpointRecords: 10 }), rows)
  })

  if (destination.capabilities.commits !== 'mark') return
  const base = ['{"id":1,"a":"x"}']
  const wider = ['{"id":2,"a":"y","b":1}']

  it('drops new fields where the pipeline discards them', async (test) => {
    if (trial().fixture.schemaless) return test.skip('it has no schema')
    const { fixture, job, run, start, follow, assertRows } = trial()
    const target = await fixture.target()
    const first = job(target, base, { write: 'append' })
    await run(first)
    const attempt = start(follow(first, wider, { schema_change: 'discard' }))
    await assertRows(target, await attempt.done, ['{"id":1,"a":"x"}', '{"id":2,"a":"y"}'])
  })

  it('fails on new fields where the pipeline says so, and changes nothing', async (test) => {
    if (trial().fixture.schemaless) return test.skip('it has no schema')
    const { fixture, job, run, follow, assertRows } = trial()
    const target = await fixture.target()
    const first = job(target, base, { write: 'append' })
    const outcome = await run(first)
    await assert.rejects(run(follow(first, wider, { schema_change: 'fail' })), /b/)
    await assertRows(target, outcome, base)
  })
}
