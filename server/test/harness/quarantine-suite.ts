/** What a destination that declares `quarantine` must guarantee: each refused record is kept exactly once, the rest is loaded. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Destination, Sync, WriteMode } from '../../src/connectors/contract.ts'
import type { Part } from '../../src/engine/execute.ts'
import { plainRows, type Settings } from './conformance.ts'
import { crashPoints, everyCombination } from './crash-suite.ts'
import { assertSameRows } from './ledger.ts'
import type { Trial } from './trial.ts'

const checkpointRecords = 10
const limits = { checkpointRecords, holdBytes: 1 }
const old = plainRows(6, 5001)
const isRefused = (row: string): boolean => row.includes('"name":"refused')
/** Alone, beside each other, first and last of a checkpoint. */
const rows = plainRows(17).map((row, at) =>
  [0, 4, 5, 9, 12, 16].includes(at) ? row.replace('"name":"row', '"name":"refused') : row,
)
const taken = rows.filter((row) => !isRefused(row))
const refused = rows.filter(isRefused)
const sources = {
  'can resume': { resumable: true, pageRecords: 5 },
  'cannot resume': { resumable: false, pageRecords: 5 },
}

export function testQuarantine(destination: Destination, trial: () => Trial): void {
  // Each way of refusing with some of the combinations: all of them take minutes.
  let combination = 0
  for (const write of destination.capabilities.write) {
    const sync: Partial<Sync> = { write, on_error: 'quarantine', max_error_share: 0.5 }
    it(`${write}: a refused record fails the run, unless the pipeline quarantines it`, async () => {
      for (const make of waysOf(trial())) {
        const target = await make()
        const { job, run } = trial()
        await assert.rejects(run(job(target, rows, { write }), { checkpointRecords: 100 }))
      }
    })

    combination += 1
    for (const [name, kind] of Object.entries(sources)) {
      const number = combination++
      if (number % 2 === 0 && !everyCombination) continue
      it(`${write}: a crash at any point leaves every refused record in the quarantine exactly once (source ${name})`, async (test) => {
        if (trial().fixture.cannotHide && !kind.resumable) return test.skip('what it sent before the crash comes again')
        const ways = waysOf(trial())
        await crashEverywhere(trial(), ways[(number >> 1) % ways.length]!, sync, kind)
      })
    }

    it(`${write}: a run with too many refused records fails, and shows what was wrong with them`, async () => {
      for (const make of waysOf(trial())) await failByShare(trial(), make, write)
    })
  }
}

function waysOf({ fixture, destination }: Trial): (() => Promise<Settings>)[] {
  const ways = Object.values(fixture.refusing ?? {})
  if (ways.length === 0)
    throw new Error(`${destination.name} declares quarantine, and its fixture has no target that refuses`)
  return ways
}

type Kind = (typeof sources)['can resume']

async function crashEverywhere(
  { bench, job, start, run, follow, crash, assertRows, fixture }: Trial,
  make: () => Promise<Settings>,
  sync: Partial<Sync>,
  kind: Kind,
): Promise<void> {
  const begin = async () => {
    const target = await make()
    const first = job(target, old, sync)
    await run(first)
    return { target, doomed: follow(first, rows, {}, kind) }
  }
  const { doomed: plain } = await begin()
  const recorded = start(plain, limits)
  const outcome = await recorded.done
  assert.equal(outcome.records_read, rows.length)
  assert.equal(outcome.records_written, taken.length)
  assert.match(recorded.log.join('\n'), /warn The destination refused 6 records; they are in the quarantine/)
  const expected = fixture.expected?.bind(fixture) ?? ((row: string) => row)
  for (const [point, nth] of [...crashPoints(recorded.points, false), ...quarantinePoints(recorded.points)]) {
    const place = `crashed at ${point} (${nth})`
    const { target, doomed } = await begin()
    assert.ok(await crash(doomed, point, nth, limits), place)
    const again = await run(bench.again(doomed), limits)
    const before = sync.write === 'replace' ? [] : old
    await assertRows(target, again, [...before, ...taken], place)
    assertSameRows(await readRecords(bench, again.quarantine ?? []), refused.map(expected), `quarantine, ${place}`)
    assert.equal(again.records_written, taken.length, place)
  }
}

/** Every time that the quarantine is saved. */
function quarantinePoints(passed: readonly string[]): [string, number][] {
  return ['quarantine:before', 'quarantine:after'].flatMap((point) =>
    passed.filter((each) => each === point).map((_, at): [string, number] => [point, at + 1]),
  )
}

async function readRecords(bench: Trial['bench'], parts: readonly Part[]): Promise<string[]> {
  const lines = (await bench.readParts(parts)).toString().split('\n').slice(0, -1)
  return lines.map((line) => {
    const { reason } = JSON.parse(line) as { reason: string }
    assert.equal(typeof reason, 'string')
    assert.ok(reason.length > 5, reason)
    // As it is written, with every digit.
    return line.slice('{"record":'.length, line.lastIndexOf(',"reason":'))
  })
}

async function failByShare(
  { bench, job, start, run, follow, assertRows, fixture }: Trial,
  make: () => Promise<Settings>,
  write: WriteMode,
): Promise<void> {
  const target = await make()
  const sync: Partial<Sync> = { write, on_error: 'quarantine', max_error_share: 0.1 }
  const first = job(target, old, sync)
  const outcome = await run(first)
  const doomed = follow(first, rows, {}, { resumable: false })
  const failed = start(doomed, { checkpointRecords: 100 })
  await assert.rejects(failed.done, /refused 6 of 17 records, more than config\.sync\.max_error_share \(0\.1\) allows/)
  // Nothing of it is visible, where the destination can hide it.
  if (!fixture.cannotHide) await assertRows(target, outcome, old)
  const shown = await readRecords(bench, bench.savedQuarantine(doomed))
  assert.equal(shown.length, refused.length)
}
