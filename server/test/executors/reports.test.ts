/** A compromised executor: whatever it reports, its run ends correctly and nothing else is touched. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findReadableOutputs } from '../../src/connections/readable-outputs.ts'
import { sql } from '../../src/database/database.ts'
import type { Executor, ExecutorPool } from '../../src/executors/pool.ts'
import { trimError } from '../../src/executors/reports.ts'
import type { ClaimedRun } from '../../src/runs/claim.ts'
import { superviseRun } from '../../src/runs/supervise.ts'
import { claimRuns } from '../harness/claims.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
const { db } = engine.services
const counts = { records_read: 1, records_written: 1, bytes_written: 1 }

/** Supervises a run whose executor sends this, whatever it is asked to do. */
async function supervise(say: (run: ClaimedRun) => unknown, spaceFault: string | null = null) {
  const id = await engine.trigger(await engine.createPipeline({}))
  const limits = { free: 10, perOrganization: 10, leaseSeconds: 60 }
  const run = (await claimRuns(db, 'test', limits)).find((claimed) => claimed.id === id)!
  const ended = Promise.withResolvers<Awaited<Executor['ended']>>()
  let listener: (message: never) => void = () => {}
  const given: boolean[] = []
  const executor: Executor = {
    pid: 0,
    send: ({ type }) => {
      if (type === 'run') for (const said of [say(run)].flat()) setImmediate(() => listener(said as never))
    },
    onMessage: (heard) => {
      listener = heard as typeof listener
    },
    ended: ended.promise,
    residentMb: () => 0,
    spaceFault: () => spaceFault,
    kill: () => ended.resolve({ code: null, signal: 'SIGKILL', stderr: '' }),
  }
  const pool: ExecutorPool = {
    take: () => executor,
    give: (_, reusable) => void given.push(reusable),
    close: async () => {},
  }
  await superviseRun(engine.services, pool, run).done
  return { row: await engine.run(id), reused: given[0] }
}

const partOf = (run: ClaimedRun, name = '1-1.part') => ({
  checkpoint: 1,
  key: `${run.organization_id}/runs/${run.id}/${name}`,
  size: 1,
  records: 1,
})
const outcomeOf = (run: ClaimedRun) => ({
  ...counts,
  cursor: null,
  output: { parts: [partOf(run)], size: 1, extension: 'jsonl', content_type: 'application/x-ndjson' },
})
const other = '11111111-1111-4111-8111-111111111111'

test('invalid reports, and those that cannot be stored, fail the run', async () => {
  const success = (change: (run: ClaimedRun) => object) => (run: ClaimedRun) => ({
    type: 'success',
    reusable: true,
    outcome: { ...outcomeOf(run), ...change(run) },
  })
  const output = (change: object) => success((run) => ({ output: { ...outcomeOf(run).output, ...change } }))
  const parts = (key: (run: ClaimedRun) => string) =>
    success((run) => ({ output: { ...outcomeOf(run).output, parts: [{ ...partOf(run), key: key(run) }] } }))
  const stored =
    (change: object, name = '1-1.part.zst') =>
    (run: ClaimedRun) => {
      const part = { ...partOf(run, name), ...change }
      const { output } = outcomeOf(run)
      return success(() => ({ output: { ...output, parts: [part], size: part.size } }))(run)
    }
  const checkpoint = (change: object) => () => ({
    type: 'checkpoint',
    id: 1,
    checkpoint: { ...counts, checkpoint: 1, cursor: null, parts: [], ...change },
  })
  const lies: [string, (run: ClaimedRun) => unknown][] = [
    ['a blob of another organization', parts((run) => partOf({ ...run, organization_id: other }).key)],
    ['a blob of another run', parts((run) => partOf({ ...run, id: other }).key)],
    ['a way out of its folder', parts((run) => partOf(run, `../${other}/1-1.part`).key)],
    ['what is no part', parts((run) => partOf(run, 'log.json.gz').key)],
    ['another size', output({ size: 1_000_000 })],
    ['a compressed part without its stored size', stored({})],
    ['a stored size that is no count', stored({ stored_bytes: -1 })],
    ['a stored size that is nothing', stored({ stored_bytes: null })],
    ['a stored size that cannot hold the table', stored({ stored_bytes: 24 })],
    ['a part that is larger than any', stored({ size: 2 ** 50, stored_bytes: 2 ** 50 })],
    ['a stored size of a part that is not compressed', stored({ stored_bytes: 1000 }, '1-1.part')],
    ['a header in the content type', output({ content_type: 'text/html\r\nSet-Cookie: a=b' })],
    ['a path in the extension', output({ extension: '../../x' })],
    ['a count that is none', success(() => ({ records_read: Number.NaN }))],
    ['a state with U+0000', success(() => ({ cursor: { a: 'b\0' } }))],
    ['a lone surrogate', checkpoint({ cursor: ['\ud800'] })],
    ['a state without an end', checkpoint({ cursor: 'x'.repeat(9 * 1024 * 1024) })],
    ['a foreign part in a checkpoint', checkpoint({ parts: [partOf({ id: other } as ClaimedRun)] })],
    ['progress below nothing', () => ({ type: 'progress', counts: { ...counts, bytes_written: -1 } })],
    ['a log of numbers', () => ({ type: 'log', entries: [['info', 5]] })],
    ['a message of no kind', () => ({ type: 'toString' })],
  ]
  for (const [what, say] of lies) {
    const { row, reused } = await supervise(say)
    assert.equal(row.status, 'failed', what)
    assert.match(row.error!, /^internal: the executor sent an invalid report/, what)
    assert.equal(row.output_file, null, what)
    assert.equal(reused, false, what)
  }
  for (const nothing of [null, 5, {}, { type: 'log' }, { type: 'progress' }, { type: 'success' }]) {
    const { row } = await supervise(() => nothing)
    assert.equal(row.status, 'failed', JSON.stringify(nothing))
  }
})

test('an executor that fills the disk is ended, and its run fails', async () => {
  const { row, reused } = await supervise(() => [], 'The disk has only 1 MB left')
  assert.deepEqual([row.status, row.error, reused], ['failed', 'limit: The disk has only 1 MB left', false])
})

test('a compressed part with possible sizes is valid', async () => {
  const { row } = await supervise((run) => {
    const output = { ...outcomeOf(run).output, parts: [{ ...partOf(run, '1-1.part.zst'), stored_bytes: 25 }] }
    return { type: 'success', reusable: true, outcome: { ...outcomeOf(run), output } }
  })
  assert.deepEqual([row.status, row.error], ['success', null])
})

test('a state with a backslash before u0000 is valid', async () => {
  const { row } = await supervise((run) => ({
    type: 'success',
    reusable: true,
    outcome: { ...outcomeOf(run), cursor: { a: '\\u0000' } },
  }))
  assert.equal(row.status, 'success')
})

test('an error is shortened, and contains nothing that the database rejects', async () => {
  const message = `a\0b\ud800${'x'.repeat(3_000_000)}`
  const { row } = await supervise(() => ({ type: 'failure', kind: 'source', message, transient: false }))
  assert.equal(row.status, 'failed')
  assert.match(row.error!, /^source: a\\0b\ufffdxxx/)
  assert.ok(row.error!.length < 5000)
  assert.equal(trimError('short'), 'short')
})

test('a schema change is in the log once, as the destination has written it', async () => {
  const change = 'added column colour text'
  const { row } = await supervise((run) => [
    { type: 'log', entries: [['info', `public.creatures: ${change}.`]] },
    { type: 'schema', columns: [{ name: 'colour', type: 'text' }], changes: [change] },
    { type: 'success', reusable: true, outcome: outcomeOf(run) },
  ])
  assert.equal((await engine.logs(row.id)).split(change).length - 1, 1)
})

test('an executor is reused only if it says that it may be', async () => {
  const success = (reusable: unknown) => (run: ClaimedRun) => ({ type: 'success', reusable, outcome: outcomeOf(run) })
  assert.equal((await supervise(success(true))).reused, true)
  assert.equal((await supervise(success(false))).reused, false)
})

test('the output of a run is readable by another run only under its own prefix', async () => {
  const { row } = await supervise((run) => ({ type: 'success', reusable: true, outcome: outcomeOf(run) }))
  const { organization_id, id } = row
  assert.equal((await findReadableOutputs(db, organization_id, [id.toUpperCase()])).parts[id]?.length, 1)
  const nothing = { parts: {}, columns: {} }
  assert.deepEqual(await findReadableOutputs(db, other, [id]), nothing)
  await db.execute(sql`UPDATE runs SET output_type = 'text/tab-separated-values' WHERE id = ${id}`)
  assert.deepEqual(
    await findReadableOutputs(db, organization_id, [id]),
    nothing,
    'nobody knows the columns of these rows',
  )
  const columns = [{ name: 'id', type: 'int64' }]
  await db.execute(sql`UPDATE runs SET output_columns = ${JSON.stringify(columns)} WHERE id = ${id}`)
  assert.deepEqual((await findReadableOutputs(db, organization_id, [id])).columns, { [id]: columns })
  await db.execute(sql`UPDATE runs SET output_type = 'application/x-ndjson' WHERE id = ${id}`)
  await db.execute(sql`
    UPDATE runs SET output_parts = ${JSON.stringify([{ key: `${other}/runs/${id}/1-1.part`, size: 1 }])} WHERE id = ${id}`)
  assert.deepEqual(await findReadableOutputs(db, organization_id, [id]), nothing)
})
