/** What every source must guarantee: see conformance.ts. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { ColumnChoice, Source, Sync } from '../../src/connectors/contract.ts'
import { isColumnType } from '../../src/connectors/types/column-types.ts'
import type { Job, Outcome } from '../../src/engine/execute.ts'
import type { Json } from '../../src/json/json.ts'
import type { AuthServer } from './auth-server.ts'
import { type Guarded, testAuthentication } from './auth-suite.ts'
import { testChecks } from './check-suite.ts'
import type { OpenSourceFixture, Settings, SourceFixture } from './conformance.ts'
import { assertSameRows, levelRow } from './ledger.ts'
import { type AttemptOptions, openRunBench, type RunBench } from './run-bench.ts'
import { createSaid } from './said.ts'
import { sourceContext } from './source-context.ts'

type Stream = Settings & { stream: string }

export function testSource(source: Source, openFixture: OpenSourceFixture): void {
  describe(`source ${source.name}`, () => {
    const said = createSaid()
    let bench: RunBench
    let fixture: SourceFixture
    before(async () => {
      bench = await openRunBench()
      bench.use(source)
      fixture = await openFixture(bench)
    })
    after(async () => {
      await fixture?.close()
      await bench?.close()
    })

    const job = (from: Stream, sync: Partial<Sync> = {}, overrides: Partial<Job> = {}): Job =>
      bench.job({ source: { name: source.name, ...from }, destination: { name: 'file' }, sync }, overrides)
    const read = async (wanted: Job, options?: AttemptOptions): Promise<{ rows: string[]; outcome: Outcome }> => {
      const attempt = bench.start(wanted, options)
      try {
        const outcome = await attempt.done
        return { outcome, rows: (await bench.readOutput(outcome)).toString().split('\n').slice(0, -1) }
      } catch (error) {
        said.addError(error)
        throw error
      } finally {
        attempt.log.forEach(said.add)
      }
    }

    testChecks({ connector: source, fixture: () => fixture, usable: () => fixture.stream(1), bench: () => bench, said })

    testAuthentication({ types: source.auth_types, said, open: (auth) => openGuarded(auth, fixture, read, job) })

    for (const count of [0, 1, 1000]) {
      it(`returns ${count} records exactly once`, async () => {
        const { rows, outcome } = await read(job(await fixture.stream(count)))
        assert.equal(rows.length, count)
        assert.equal(new Set(rows.map(levelRow)).size, count)
        assert.equal(outcome.records_read, count)
      })
    }

    it('lists the stream it reads', async () => {
      const wanted = await fixture.stream(1)
      const listed = await source.listStreams(sourceContext(bench, source, wanted))
      assert.ok(listed.includes(wanted.stream), `${wanted.stream} in ${listed.join(', ')}`)
      if (source.streams !== 'dynamic') assert.deepEqual(listed, [...source.streams])
    })

    it('describes the stream as it reads it', async () => {
      const wanted = await fixture.stream(20)
      const context = sourceContext(bench, source, wanted)
      const [description, ...more] = await source.describe(context, [wanted.stream])
      assert.deepEqual([description?.stream, more], [wanted.stream, []])
      const { columns, primary_key, cursor_fields, estimated_rows } = description!
      assert.ok(estimated_rows === null || estimated_rows >= 0)
      if (columns === null) return
      const names = columns.map(({ name }) => name)
      const { rows } = await read(job(wanted))
      assert.deepEqual(names, Object.keys(JSON.parse(rows[0]!)))
      assert.ok(columns.every(({ type }) => isColumnType(type)))
      for (const name of [...primary_key, ...cursor_fields]) assert.ok(names.includes(name), name)
    })

    it('returns difficult values unchanged', async (test) => {
      const nasty = await fixture.nasty?.()
      if (!nasty) return test.skip('it generates its records')
      const { expected, ...from } = nasty
      assertSameRows((await read(job(from))).rows, expected)
    })

    it('stops at once when it is aborted', async () => {
      const from = await fixture.stream(1000)
      const stop = new AbortController()
      const fault = (point: string): void => {
        if (point === 'write:before') stop.abort(new Error('told to stop'))
      }
      const started = performance.now()
      await assert.rejects(read(job(from), { signal: stop.signal, fault }), /told to stop/)
      assert.ok(performance.now() - started < 4000)
    })

    it('resumes right after any cursor it returned', async (test) => {
      if (!source.capabilities.resumable) return test.skip('it cannot resume')
      const from = await fixture.stream(1000)
      const whole = (await read(job(from))).rows
      for (let nth = 1; nth <= 3; nth++) {
        const doomed = job(from)
        if (!(await bench.crash(doomed, 'commit:after', nth, { checkpointRecords: 1 }))) break
        const { rows, outcome } = await read(bench.again(doomed))
        assertSameRows(rows, whole, `after checkpoint ${nth}`)
        assert.equal(outcome.records_read, whole.length)
      }
    })

    it('reads only what is new when it reads incrementally', async (test) => {
      if (!source.capabilities.incremental || !fixture.grow) return test.skip('it does not read incrementally')
      const sync = { mode: 'incremental', write: 'append', cursor_field: fixture.cursorField ?? null } as const
      const from = await fixture.stream(50)
      const first = job(from, sync)
      const earlier = await read(first)
      assert.equal(earlier.rows.length, 50)
      assert.equal((await read(bench.next(first, earlier.outcome))).rows.length, 0)
      source.checkState?.(earlier.outcome.cursor)
      const grown = await fixture.grow(from, 30)
      const { seq, fingerprint } = first
      const state = { seq, cursor: earlier.outcome.cursor, fingerprint }
      const second = job(grown, sync, { state, fingerprint })
      const later = await read(second)
      assert.equal(later.rows.length, 30)
      const all = (await read(job(grown))).rows
      assertSameRows([...earlier.rows, ...later.rows], all)
    })

    it('reads a range of its cursor, with its start and without its end, and resumes within it', async (test) => {
      if (!source.capabilities.ranges) return test.skip('it cannot be limited to a range')
      const cursor_field = fixture.cursorField ?? null
      const follow: Partial<Sync> = { mode: 'incremental', write: 'upsert', primary_key: ['id'], cursor_field }
      const from = await fixture.stream(50)
      const whole = (await read(job(from, follow))).rows
      const at = (place: number) => (fixture.positions ? place : Number(JSON.parse(whole[place]!).id))
      const range = { from: at(11), to: at(31) }
      source.checkRange?.(range)
      const { rows, outcome } = await read(job(from, follow, { range }))
      assertSameRows(rows, whole.slice(11, 31))
      assert.equal(outcome.cursor, null, 'it leaves no state')
      const doomed = job(from, follow, { range })
      assert.ok(await bench.crash(doomed, 'commit:after', 1, { checkpointRecords: 1 }))
      assertSameRows((await read(bench.again(doomed))).rows, whole.slice(11, 31), 'after a crash')
      const texts = { from: String(at(0)), to: String(at(1)) }
      const kind = fixture.positions || fixture.cursorField ? texts : { from: at(0), to: at(1) }
      assertSameRows((await read(job(from, follow, { range: kind }))).rows, whole.slice(0, 1), 'the first record')
      const beyond = { from: at(49), to: at(49) + 1000 }
      assertSameRows((await read(job(from, follow, { range: beyond }))).rows, whole.slice(49), 'the last record')
    })

    it('returns the selected columns, as the engine would', async () => {
      const from = await fixture.stream(20)
      const whole = (await read(job(from))).rows.map((row) => JSON.parse(row) as Record<string, Json>)
      const names = Object.keys(whole[0]!)
      const [first, second, third] = [names[0]!, names[1]!, names[2]!]
      const choice: ColumnChoice = { exclude: [first], rename: { [second]: 'renamed' }, hash: [third] }
      const chosen = (await read(job(from, {}, { columns: choice }))).rows.map((row) => JSON.parse(row))
      assert.deepEqual(
        Object.keys(chosen[0]),
        names.slice(1).map((name) => (name === second ? 'renamed' : name)),
      )
      for (const [at, row] of chosen.entries()) {
        assert.deepEqual(row.renamed, whole[at]![second])
        if (whole[at]![third] !== null) assert.match(row[third], /^[0-9a-f]{64}$/)
      }
      const included = (await read(job(from, {}, { columns: { include: [second] } }))).rows
      assert.deepEqual(Object.keys(JSON.parse(included[0]!)), [second])
    })

    it('never showed a secret', () => said.assertNoSecret(fixture.secrets))
  })
}

/** The fixture's guarded stream, read by runs. */
async function openGuarded(
  auth: AuthServer,
  { guarded }: SourceFixture,
  read: (wanted: Job, options?: AttemptOptions) => Promise<{ rows: string[] }>,
  job: (from: Stream) => Job,
): Promise<Guarded | null> {
  if (guarded === 'ignored') return null
  assert.ok(guarded, 'the fixture of a source with authentication types needs `guarded`')
  const { records, ...from } = await guarded(auth)
  return {
    records,
    read: async (authentication, refreshTokens) =>
      (await read(job({ ...from, authentication }), refreshTokens ? { refreshTokens } : {})).rows.length,
    async close() {},
  }
}
