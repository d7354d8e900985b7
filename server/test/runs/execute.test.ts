import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'

let bench: RunBench
before(async () => {
  bench = await openRunBench()
})
after(() => bench.close())

function lines(bytes: Buffer): string[] {
  return bytes.toString().split('\n').slice(0, -1)
}

describe('a run into a file', () => {
  it('holds exactly the records of its source', async () => {
    const job = bench.job({ source: { name: 'dummy', config: { records: 1000 } }, destination: { name: 'file' } })
    const attempt = bench.start(job)
    const outcome = await attempt.done
    const records = lines(await bench.readOutput(outcome)).map((line) => JSON.parse(line))
    assert.deepEqual(
      records.map((record) => record.id),
      Array.from({ length: 1000 }, (_, index) => index + 1),
    )
    assert.equal(Object.keys(records[0])[0], '_record_id')
    assert.equal(outcome.records_read, 1000)
    assert.equal(outcome.records_written, 1000)
    assert.equal(outcome.output?.extension, 'jsonl')
    assert.equal(outcome.output?.size, outcome.bytes_written)
    assert.match(attempt.log.join('\n'), /Read 1,000 records/)
  })

  it('succeeds with an empty output where there is nothing to read', async () => {
    const job = bench.job({ source: { name: 'dummy', config: { records: 0 } }, destination: { name: 'file' } })
    const outcome = await bench.run(job)
    assert.deepEqual(outcome.output, { parts: [], extension: 'jsonl', content_type: 'application/x-ndjson', size: 0 })
  })

  it('is one valid gzip file although it is written in parts', async () => {
    const job = bench.job({
      source: { name: 'dummy', config: { records: 60_000 } },
      destination: { name: 'file', config: { compression: 'gzip' } },
    })
    const outcome = await bench.run(job)
    assert.ok(outcome.output!.parts.length > 1)
    assert.equal(lines(gunzipSync(await bench.readOutput(outcome))).length, 60_000)
    assert.equal(outcome.output?.extension, 'jsonl.gz')
  })

  it('keeps nothing where the pipeline keeps no output', async () => {
    const job = bench.job(
      { source: { name: 'dummy', config: { records: 5 } }, destination: { name: 'logger' } },
      { keep_output: false },
    )
    const attempt = bench.start(job)
    assert.equal((await attempt.done).output, null)
    for await (const blob of bench.blobs.list(`${job.organization_id}/runs/${job.run_id}/`)) assert.fail(blob.key)
    assert.equal(attempt.log.filter((line) => line.startsWith('info Record: {"_record_id"')).length, 5)
  })
})
