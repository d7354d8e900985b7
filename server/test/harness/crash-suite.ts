/**
 * Crashes, zombies and cancels against one destination. The fault points are not listed here: a run without faults records
 * every point it passes, the engine's and the destination's own, and then a run is crashed at each of them.
 */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Destination, Sync, WriteMode } from '../../src/connectors/contract.ts'
import { plainRows } from './conformance.ts'
import { assertSameRows } from './ledger.ts'
import { hasRows, keysFor, type Trial } from './trial.ts'

const checkpointRecords = 10
const options = { pageRecords: 5 }
const old = plainRows(6, 5001)
/** With a field that the old ones do not have, so that a table must change before they fit. */
const rows = plainRows(23).map((row) => row.replace(/}$/, ',"added":true}'))
/** Nothing is held in memory that could go to the destination: so it is with more rows. */
const limits = { checkpointRecords, holdBytes: 1 }
const sources = {
  'can resume': { resumable: true, cursorEvery: 1 },
  'rarely has a cursor': { resumable: true, cursorEvery: 3 },
  'cannot resume': { resumable: false, cursorEvery: 1 },
}

type SourceKind = keyof typeof sources
/** Which combinations are crashed at every point. */
export type ChooseCrashes = (write: WriteMode, kind: SourceKind) => boolean

/** All combinations of modes and sources: minutes more, for whoever changes the load protocol. */
export const everyCombination = process.env.CRASHES === 'all'

export function testCrashes(destination: Destination, trial: () => Trial, isChosen: ChooseCrashes = () => true): void {
  const keepsRows = hasRows(destination)
  const afterRun = (write: WriteMode): string[] => (keepsRows && write !== 'replace' ? [...old, ...rows] : rows)

  const modes = destination.capabilities.write
  for (const write of modes) {
    for (const name of Object.keys(sources) as SourceKind[]) {
      if (!isChosen(write, name)) continue
      // Between checkpoints the modes differ, but not in how rarely there is one.
      if (name === 'rarely has a cursor' && write !== modes[0] && !everyCombination) continue
      const kind = sources[name]
      it(`${write}: a crash at any point, then a resume, leaves every row exactly once (source ${name})`, async (test) => {
        const { fixture, bench, job, start, run, follow, crash, assertRows } = trial()
        if (fixture.cannotHide && !kind.resumable) return test.skip('what it sent before the crash comes again')
        const begin = async () => {
          const target = await fixture.target()
          const first = job(target, old, { write })
          await run(first)
          return { target, doomed: follow(first, rows, {}, { ...options, ...kind }) }
        }
        const { doomed: plain } = await begin()
        const recorded = start(plain, limits)
        await recorded.done
        const everywhere = write === modes[0] && kind === sources['can resume']
        for (const [point, nth] of crashPoints(recorded.points, everywhere)) {
          const place = `crashed at ${point} (${nth})`
          const { target, doomed } = await begin()
          assert.ok(await crash(doomed, point, nth, limits), place)
          if (keepsRows) await assertNeverHalf(trial(), target.config, { write, resumable: kind.resumable, place })
          const outcome = await run(bench.again(doomed), limits)
          await assertRows(target, outcome, afterRun(write), place)
          assert.equal(outcome.records_read, rows.length, place)
          if (destination.buildOutput || !doomed.keep_output) continue
          const staged = (await bench.readOutput(outcome)).toString().split('\n').slice(0, -1)
          assertSameRows(staged, rows, `output, ${place}`)
        }
      })
    }

    it(`${write}: a cancel in the middle shows nothing incomplete, and the next run fixes it`, async (test) => {
      const { fixture, job, start, run, follow, assertRows } = trial()
      if (fixture.cannotHide) return test.skip('what it sent comes again')
      const target = await fixture.target()
      const sync: Partial<Sync> = {
        ...keysFor(write),
        write,
        mode: write === 'replace' ? 'full_refresh' : 'incremental',
      }
      let cancel: () => void = () => undefined
      const doomed = job(target, rows, sync, {
        ...options,
        beforePage: (given) => (given >= 20 ? cancel() : undefined),
      })
      const cancelled = start(doomed, { checkpointRecords })
      cancel = cancelled.cancel
      await assert.rejects(cancelled.done, /cancelled/)
      const next = await run(follow(doomed, rows, sync, options))
      await assertRows(target, next, rows)
    })
  }

  if (destination.capabilities.commits === 'output') return
  testZombies(destination, trial)
  if (destination.capabilities.commits !== 'mark') return
  testMarks(trial)
  testRestores(destination, trial)
}

function testZombies(destination: Destination, trial: () => Trial): void {
  for (const write of destination.capabilities.write) {
    it(`${write}: a worker that wakes up after it was replaced changes nothing`, async () => {
      const { fixture, bench, job, start, run, assertRows } = trial()
      const target = await fixture.target()
      const doomed = job(target, rows, { write }, options)
      let wake: () => void = () => undefined
      const asleep = new Promise<void>((resolve) => {
        wake = resolve
      })
      let fallAsleep: () => void = () => undefined
      const sleeping = new Promise<void>((resolve) => {
        fallAsleep = resolve
      })
      let commits = 0
      const zombie = start(doomed, {
        checkpointRecords,
        fault: (point) => {
          if (point !== 'commit:before' || ++commits !== 2) return undefined
          fallAsleep()
          return asleep
        },
      })
      await sleeping
      const outcome = await run(bench.again(doomed), { checkpointRecords })
      wake()
      await assert.rejects(zombie.done)
      await assertRows(target, outcome, rows)
    })
  }

  it('does not advance the state for rows that were never published', async (test) => {
    const { fixture, job, run, follow, crash, assertRows } = trial()
    if (fixture.cannotHide) return test.skip('what it sent comes again')
    const target = await fixture.target()
    const sync = { write: 'append', mode: 'incremental' } as const
    const lost = job(target, rows, sync, { ...options, resumable: false })
    assert.ok(await crash(lost, 'commit:after', 2, { checkpointRecords }))
    const outcome = await run(follow(lost, rows, sync, { ...options, resumable: false }), { checkpointRecords })
    await assertRows(target, outcome, rows)
  })
}

function testMarks(trial: () => Trial): void {
  it('resumes from its mark if our database lost the state', async () => {
    const { fixture, bench, job, run, follow, crash, assertRows } = trial()
    const target = await fixture.target()
    const first = job(target, plainRows(10), { write: 'append', mode: 'incremental' })
    await run(first)
    const second = follow(first, plainRows(25), {}, options)
    assert.equal(second.state, null)
    assert.ok(await crash(second, 'read:before', 1))
    const outcome = await run(bench.again(second), { checkpointRecords })
    assert.equal(outcome.records_read, 15)
    await assertRows(target, outcome, plainRows(25))
  })
}

function testRestores(destination: Destination, trial: () => Trial): void {
  for (const write of destination.capabilities.write) {
    it(`${write}: a run that only has the number of one that was loaded before is not taken for it`, async () => {
      const { fixture, bench, job, start, run, follow, assertRows } = trial()
      const target = await fixture.target()
      const first = job(target, old, { write })
      const outcome = await run(first)
      const again = start({ ...follow(first, rows, {}, options), seq: first.seq })
      await assert.rejects(again.done, /fenced/)
      await assertRows(target, outcome, old)
      const moved = bench.next(follow(first, rows, {}, options), null)
      await assertRows(target, await run(moved), write === 'replace' ? rows : [...old, ...rows])
    })

    it(`${write}: of two workers with the same attempt only the last that fenced may commit`, async () => {
      const { fixture, bench, job, start, assertRows } = trial()
      const target = await fixture.target()
      // It cannot resume, so the second one counts its checkpoints from 1 again, and they hold other rows.
      const doomed = job(target, rows, { write }, { ...options, resumable: false })
      const first = holdAt('commit:before', 2)
      const second = holdAt('commit:after', 1)
      const replaced = start(doomed, { checkpointRecords, fault: first.fault })
      await first.reached
      const { attempt } = doomed
      const successor = start({ ...bench.again(doomed), attempt }, { checkpointRecords: 15, fault: second.fault })
      await second.reached
      first.letGo()
      await assert.rejects(replaced.done, /fenced|lost/)
      second.letGo()
      await assertRows(target, await successor.done, rows)
    })

    it(`${write}: checkpoints that our database has lost are noticed, and no row is lost or doubled`, async () => {
      const { fixture, bench, job, start, crash, assertRows } = trial()
      for (const point of ['commit:after', 'publish:after']) {
        const target = await fixture.target()
        const doomed = job(target, rows, { write }, options)
        assert.ok(await crash(doomed, point, 1, { checkpointRecords }))
        const restored = start({ ...bench.again(doomed), resume: null }, { checkpointRecords })
        const outcome = await restored.done
        await assertRows(target, outcome, rows)
        assert.match(
          restored.log.join('\n'),
          doomed.keep_output ? /warn .* does not know of.*no output file/ : /warn .* does not know of/,
        )
        assert.equal(outcome.output, null, 'an incomplete file is worse than none')
      }
    })
  }
}

/** Holds an attempt where it passes the point for the nth time. */
function holdAt(wanted: string, nth: number) {
  const arrived = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  let seen = 0
  return {
    reached: arrived.promise,
    letGo: () => held.resolve(),
    fault(point: string): Promise<void> | undefined {
      if (point !== wanted || ++seen !== nth) return undefined
      arrived.resolve()
      return held.promise
    },
  }
}

/**
 * Where to crash. The first combination of mode and source gets every point, the first and the second time it is passed: the
 * first checkpoint is often special. In the others what the engine does by itself is the same, so they get the steps of the
 * load protocol and the destination's own points, once something was committed.
 */
export function crashPoints(passed: readonly string[], everywhere: boolean): [string, number][] {
  const counts = new Map<string, number>()
  for (const point of passed) counts.set(point, (counts.get(point) ?? 0) + 1)
  return [...counts].flatMap(([point, count]): [string, number][] => {
    const ofEngine = /^(fence|read|open|write|seal|save|output):/.test(point)
    if (!everywhere) return ofEngine ? [] : [[point, Math.min(count, 2)]]
    return count > 1 && !ofEngine
      ? [
          [point, 1],
          [point, 2],
        ]
      : [[point, 1]]
  })
}

async function assertNeverHalf(
  trial: Trial,
  config: Record<string, unknown>,
  { write, resumable, place }: { write: WriteMode; resumable: boolean; place: string },
): Promise<void> {
  const { fixture, bench } = trial
  const seen = (await fixture.read({ config }, null, bench)).length
  const whole = write === 'replace' ? [old.length, rows.length] : [old.length, old.length + rows.length]
  if (write === 'replace' || !resumable) assert.ok(whole.includes(seen), `${place}: ${seen} rows can be seen`)
  else assert.ok(seen >= old.length && seen <= old.length + rows.length, `${place}: ${seen} rows can be seen`)
}
