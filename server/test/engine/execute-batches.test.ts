/** The engine against a destination that only recognises batches, with the suite that every such destination must pass. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Destination } from '../../src/connectors/contract.ts'
import { type DestinationFixture, plainRows } from '../harness/conformance.ts'
import { testDestination } from '../harness/destination-suite.ts'
import { assertSameRows } from '../harness/ledger.ts'
import { lineSource } from '../harness/line-source.ts'
import { objectDestination, readObjects } from '../harness/object-destination.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'

const destination = objectDestination as unknown as Destination
const bucket = (bench: RunBench) => ({ config: { folder: join(bench.folder, '.tmp', randomUUID()) } })

testDestination(destination, async (bench): Promise<DestinationFixture> => {
  const target = async () => bucket(bench)
  return {
    secrets: [],
    schemaless: true,
    good: target,
    target,
    read: async ({ config }) => readObjects(String(config.folder)),
    refusing: { 'what is put': target },
    async close() {},
  }
})

describe('a batch', () => {
  let bench: RunBench
  before(async () => {
    bench = await openRunBench()
  })
  after(() => bench.close())
  const rows = plainRows(50)
  const options = { destination, checkpointRecords: 10 }

  it('in doubt is sent again byte for byte, although the source now returns its rows differently', async () => {
    const { config } = bucket(bench)
    const doomed = bench.job({
      source: lineSource(rows, { pageRecords: 5 }),
      destination: { name: 'objects', config },
    })
    assert.ok(await bench.crash(doomed, 'objects:put-done', 2, options))
    const regrouped = bench.job({
      source: lineSource(rows, { pageRecords: 7 }),
      destination: { name: 'objects', config },
    })
    const again = { ...bench.again(doomed), source: regrouped.source }
    const outcome = await bench.run(again, options)
    assertSameRows(readObjects(config.folder), rows)
    assert.equal(outcome.records_read, 50)
    assert.equal(outcome.records_written, 50)
  })

  it('that was the last needs no source: a source that cannot resume is not read again', async () => {
    const { config } = bucket(bench)
    let readings = 0
    const beforePage = (given: number): void => {
      if (given === 0) readings += 1
    }
    const source = lineSource(rows, { resumable: false, pageRecords: 5, beforePage })
    const doomed = bench.job({ source, destination: { name: 'objects', config } })
    assert.ok(await bench.crash(doomed, 'publish:before', 1, options))
    await bench.run(bench.again(doomed), options)
    assert.equal(readings, 1)
    assertSameRows(readObjects(config.folder), rows)
  })

  it('of an abandoned reading is never mistaken for one of the new reading', async () => {
    const { config } = bucket(bench)
    const job = bench.job({
      source: lineSource(rows, { resumable: false, pageRecords: 5 }),
      destination: { name: 'objects', config },
    })
    assert.ok(await bench.crash(job, 'objects:put-done', 2, options))
    const others = plainRows(40, 101)
    const changed = bench.job({
      source: lineSource(others, { resumable: false, pageRecords: 5 }),
      destination: { name: 'objects', config },
    })
    await bench.run({ ...bench.again(job), source: changed.source }, options)
    assertSameRows(readObjects(config.folder), others)
    const left = readdirSync(join(config.folder, 'batches', job.run_id))
    assert.ok(
      left.every((name) => name.startsWith('2-')),
      left.join(),
    )
  })

  it('is not kept after the run if the pipeline keeps no output, and is still sent again until then', async () => {
    const { config } = bucket(bench)
    const doomed = bench.job(
      { source: lineSource(rows, { pageRecords: 5 }), destination: { name: 'objects', config } },
      { keep_output: false },
    )
    assert.ok(await bench.crash(doomed, 'commit:before', 3, options))
    const outcome = await bench.run(bench.again(doomed), options)
    assert.equal(outcome.output, null)
    assertSameRows(readObjects(config.folder), rows)
    for await (const blob of bench.blobs.list(`${doomed.organization_id}/runs/${doomed.run_id}/`)) assert.fail(blob.key)
  })

  it('is not resumed if the columns of its rows have changed meanwhile', async () => {
    const { config } = bucket(bench)
    const withColumns = (name: string) => {
      const source = lineSource(rows, { pageRecords: 5 })
      return {
        ...source,
        read: async (context: Parameters<typeof source.read>[0]) => ({
          ...(await source.read(context)),
          columns: [{ name, type: 'int64' as const }],
        }),
      }
    }
    const into = { name: 'objects', config }
    const doomed = bench.job({ source: withColumns('id'), destination: into })
    assert.ok(await bench.crash(doomed, 'commit:after', 2, options))
    const changed = bench.job({ source: withColumns('key'), destination: into })
    await assert.rejects(
      bench.run({ ...bench.again(doomed), source: changed.source }, options),
      /columns of the stream changed/,
    )
    assert.deepEqual(readObjects(config.folder), [])
  })
})
