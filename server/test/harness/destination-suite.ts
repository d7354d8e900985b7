/** What every destination must guarantee: see conformance.ts. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Destination, WriteMode } from '../../src/connectors/contract.ts'
import { testChecks } from './check-suite.ts'
import { nastyRows, type OpenDestinationFixture, plainRows } from './conformance.ts'
import { type ChooseCrashes, testCrashes } from './crash-suite.ts'
import { testQuarantine } from './quarantine-suite.ts'
import { openRunBench } from './run-bench.ts'
import { createSaid } from './said.ts'
import { createTrial, hasRows, type Trial } from './trial.ts'

export function testDestination(
  destination: Destination,
  openFixture: OpenDestinationFixture,
  only: { crashes?: ChooseCrashes; quarantine?: false } = {},
): void {
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
    const usable = async () => ({ ...(await trial.fixture.target()), stream: 'rows' })
    testChecks({ connector: destination, fixture: () => trial.fixture, usable, bench: () => trial.bench, said })
    for (const write of destination.capabilities.write) testWriteMode(destination, write, () => trial)
    testValues(destination, () => trial)
    testCrashes(destination, () => trial, only.crashes)
    if (destination.capabilities.quarantine && only.quarantine !== false) testQuarantine(destination, () => trial)
    it('never showed a secret', () => said.assertNoSecret(trial.fixture.secrets))
  })
}

function testWriteMode(destination: Destination, write: WriteMode, trial: () => Trial): void {
  const keepsRows = hasRows(destination)

  for (const resumable of [true, false]) {
    for (const count of [0, 1, 1000]) {
      it(`${write}: ${count} records arrive exactly once, from a source that ${resumable ? 'can' : 'cannot'} resume`, async () => {
        const { fixture, job, run, assertRows } = trial()
        const target = await fixture.target()
        const outcome = await run(job(target, plainRows(count), { write }, { resumable }), { checkpointRecords: 300 })
        assert.equal(outcome.records_read, count)
        assert.equal(outcome.records_written, count)
        await assertRows(target, outcome, plainRows(count))
      })
    }
  }

  it(`${write}: a second run changes the rows of the first as the mode says`, async () => {
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
    it('upsert: of several records with the same key the last one wins, within a checkpoint and across', async () => {
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

  it('keeps difficult values unchanged', async () => {
    const { fixture, job, run, assertRows } = trial()
    const target = await fixture.target()
    await assertRows(target, await run(job(target, nastyRows(), { write }, { pageRecords: 3 })), nastyRows())
  })

  it('accepts fields that appear, disappear and widen in the middle of a run', async () => {
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

  if (!hasRows(destination)) return
  const base = ['{"id":1,"a":"x"}']
  const wider = ['{"id":2,"a":"y","b":1}']

  it('drops new fields if the pipeline discards them', async (test) => {
    if (trial().fixture.schemaless) return test.skip('it has no schema')
    const { fixture, job, run, start, follow, assertRows } = trial()
    const target = await fixture.target()
    const first = job(target, base, { write: 'append' })
    await run(first)
    const attempt = start(follow(first, wider, { schema_change: 'discard' }))
    await assertRows(target, await attempt.done, ['{"id":1,"a":"x"}', '{"id":2,"a":"y"}'])
  })

  it('fails on new fields if the pipeline says so, and changes nothing', async (test) => {
    if (trial().fixture.schemaless) return test.skip('it has no schema')
    const { fixture, job, run, follow, assertRows } = trial()
    const target = await fixture.target()
    const first = job(target, base, { write: 'append' })
    const outcome = await run(first)
    await assert.rejects(run(follow(first, wider, { schema_change: 'fail' })), /b/)
    await assertRows(target, outcome, base)
  })
}
