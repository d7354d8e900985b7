import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { DiskFull } from '../../src/blobs/disk-space.ts'
import { convertParts } from '../../src/engine/conversion.ts'
import { openRunBench } from '../harness/run-bench.ts'

const bench = await openRunBench()
after(() => bench.close())

test('a conversion to Parquet stops before it fills the disk', async () => {
  await bench.blobs.put('o/runs/r/1-1.part', Buffer.from('{"a":1}\n'))
  const conversion = {
    blobs: bench.blobs,
    parts: [{ key: 'o/runs/r/1-1.part', size: 8 }],
    key: 'o/runs/r/1-output.part',
    shape: { format: 'parquet' as const, compression: 'none' as const },
    columns: null,
    kept: null,
    signal: new AbortController().signal,
    log: { debug() {}, info() {}, warn() {}, error() {} },
  }
  await assert.rejects(convertParts({ ...conversion, keepFreeBytes: Number.MAX_SAFE_INTEGER }), DiskFull)
  assert.equal(await bench.blobs.stat(conversion.key), null, 'nothing of it is left')
  assert.ok((await convertParts(conversion)).part.size > 0)
})
