import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { ConnectorError } from '../../src/connectors/contract.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'

let bench: RunBench
before(async () => {
  bench = await openRunBench()
})
after(() => bench.close())

async function read(config: Record<string, unknown>, stream = 'creatures'): Promise<Record<string, unknown>[]> {
  const outcome = await bench.run(
    bench.job({ source: { name: 'dummy', stream, config }, destination: { name: 'file' } }),
  )
  const lines = (await bench.readOutput(outcome)).toString().split('\n').slice(0, -1)
  return lines.map((line) => JSON.parse(line))
}

describe('the dummy source', () => {
  it('returns ten records of mixed types by default', async () => {
    const [first, ...rest] = await read({})
    assert.equal(rest.length, 9)
    assert.deepEqual(Object.keys(first!), [
      '_record_id',
      'id',
      'name',
      'kind',
      'legs',
      'weight_kg',
      'protected',
      'tags',
      'home',
      'note',
      'updated_at',
    ])
    assert.equal(first!._record_id, 'creatures-1')
    assert.equal(typeof (first!.home as { depth_m: number }).depth_m, 'number')
    assert.equal(first!.updated_at, '2020-01-01T00:00:00Z')
    assert.equal((await read({}, 'plants'))[3]!._record_id, 'plants-4')
  })

  it('returns the same for the same seed and something else for another', async () => {
    assert.deepEqual(await read({ seed: 3 }), await read({ seed: 3 }))
    assert.notDeepEqual(await read({ seed: 3 }), await read({ seed: 4 }))
  })

  it('returns valid JSON with every note, also when the day changes', async () => {
    const records = await read({ records: 90_000 })
    assert.equal(records.length, 90_000)
    assert.equal(records[86_399]!.updated_at, '2020-01-01T23:59:59Z')
    assert.equal(records[86_400]!.updated_at, '2020-01-02T00:00:00Z')
    assert.ok(records.some((record) => record.note === 'café by the lock 🦦'))
  })

  it('repeats ids on request', async () => {
    const ids = (await read({ records: 7, repeat_ids: 3 })).map((record) => record.id)
    assert.deepEqual(ids, [1, 2, 3, 1, 2, 3, 1])
  })

  it('fails on request, and leaves nothing', async () => {
    const job = bench.job({
      source: { name: 'dummy', config: { records: 100, fail_after: 7 } },
      destination: { name: 'file' },
    })
    await assert.rejects(bench.run(job), (error: unknown) => {
      assert.ok(error instanceof ConnectorError)
      assert.equal(error.kind, 'source')
      assert.equal(error.transient, false)
      assert.match(error.message, /failed after 7 records/)
      return true
    })
    for await (const blob of bench.blobs.list(`${job.organization_id}/runs/${job.run_id}/`)) assert.fail(blob.key)
    assert.equal((await read({ records: 5, fail_after: 7 })).length, 5)
  })

  it('refuses an invalid state', async () => {
    const job = bench.job(
      { source: { name: 'dummy' }, destination: { name: 'file' }, sync: { mode: 'incremental', write: 'append' } },
      { state: { seq: 1, cursor: { id: 'x' }, fingerprint: null } },
    )
    await assert.rejects(bench.run(job), /is not a state of the dummy source/)
  })
})
