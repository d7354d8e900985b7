import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { openEngine } from '../../src/connectors/duckdb.ts'

const folder = await mkdtemp(join(tmpdir(), 'sluice-space-'))
after(() => rm(folder, { recursive: true }))

async function sort(keepFreeBytes?: number): Promise<unknown> {
  const signal = AbortSignal.timeout(60_000)
  const engine = await openEngine(folder, signal, { memoryMb: 40, ...(keepFreeBytes && { keepFreeBytes }) })
  try {
    return await engine.connection.runAndReadAll(
      'SELECT count(*) FROM (SELECT md5(i::VARCHAR) AS h, repeat(h, 5) AS pad FROM range(400000) AS r(i) ORDER BY h, pad OFFSET 1)',
    )
  } finally {
    engine.close()
  }
}

test('a sort that needs the disk leaves the reserve of the service alone', async () => {
  await sort()
  await assert.rejects(sort(Number.MAX_SAFE_INTEGER), /max_temp_directory_size|Out of Memory/)
})
