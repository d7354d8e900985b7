import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { CellFailure } from '../../src/cell/failure.ts'
import type { CellLimits } from '../../src/cell/limits.ts'
import { previewSource, requireConnection } from '../../src/cell/preview.ts'
import { openCells, openEgress, writeSource } from './harness.ts'

const zygote = openCells({ limits: { memory_mb: 64, cpu_seconds: 1, wall_seconds: 20 } })

async function failWith(body: string, limits: Partial<CellLimits>): Promise<CellFailure> {
  try {
    await zygote.call({ op: 'read', stream: 'a', code: writeSource(body) }, { page() {}, log() {} }, limits)
  } catch (error) {
    return error as CellFailure
  }
  throw new Error('the call succeeded')
}

test('each limit ends a call with its own kind, its name and its value', async () => {
  const cases: [string, Partial<CellLimits>, string, RegExp][] = [
    [
      'x = [bytearray(1 << 20) for _ in range(1000)]\nyield {}',
      {},
      'memory',
      /64 MB of memory \(limit CELL_MEMORY_MB\)/,
    ],
    ['while True: pass\nyield {}', {}, 'timeout', /1 seconds of processor time \(limit CELL_CPU_SECONDS\)/],
    [
      'import time; time.sleep(60)\nyield {}',
      { wall_seconds: 0.3 },
      'timeout',
      /0.3 seconds \(limit CELL_WALL_SECONDS\)/,
    ],
    ['while True: yield {"x": 1}', { max_records: 5000 }, 'limit', /5000 records \(limit CELL_MAX_RECORDS\)/],
    ['while True: yield {"x": "y" * 1000}', { max_bytes: 300_000 }, 'limit', /300000 bytes \(limit CELL_MAX_BYTES\)/],
    [
      'while True: print("x" * 1000)\nyield {}',
      { log_bytes: 50_000 },
      'limit',
      /50000 bytes of log \(limit CELL_LOG_BYTES\)/,
    ],
  ]
  for (const [body, limits, kind, message] of cases) {
    const failure = await failWith(body, limits)
    assert.equal(failure.kind, kind, body)
    assert.match(failure.message, message)
    assert.equal(failure.transient, false)
  }
})

test('the state counts towards the size of a page', async () => {
  // Each record fills a page, and a state goes with each page.
  const body = (state: number) =>
    `for n in range(20):\n    yield {"text": "x" * 140_000}\n    self.state = {"n": n, "text": "x" * ${state}}`
  const limits = { max_bytes: 3_500_000 }
  await assert.rejects(failWith(body(10), limits), /the call succeeded/)
  const failure = await failWith(body(100_000), limits)
  assert.equal(failure.kind, 'limit')
  assert.match(failure.message, /3500000 bytes \(limit CELL_MAX_BYTES\)/)
})

test('a page is a protocol violation in a call without a page consumer', async () => {
  const call = zygote.call({ op: 'read', stream: 'a', code: writeSource('yield {}') }, { log() {} })
  await assert.rejects(call, { kind: 'sandbox', message: /a page outside a run/ })
  const preview = zygote.call(
    { op: 'preview', stream: 'a', code: writeSource('yield {}'), max_records: 1 },
    { log() {} },
  )
  await assert.rejects(preview, { kind: 'sandbox', message: /a preview that was not requested/ })
})

test("a hundred megabytes of prints end the call early, and the host's memory stays small", async () => {
  const before = process.memoryUsage().rss
  const failure = await failWith('for _ in range(100): print("x" * 1_000_000)\nyield {}', {})
  assert.equal(failure.kind, 'limit')
  assert.ok(process.memoryUsage().rss - before < 64 << 20)
})

test('records of a slow source do not wait for a full page', async () => {
  const pages: number[] = []
  const body = 'import time\nfor i in range(3):\n    yield {"i": i}\n    time.sleep(1.05 if i == 0 else 0)'
  await zygote.call(
    { op: 'read', stream: 'a', code: writeSource(body) },
    { page: ({ records }) => void pages.push(records) },
  )
  assert.deepEqual(pages, [2, 1])
})

test('a cancelled call is killed at once, even if it ignores every signal', async () => {
  const cancel = new AbortController()
  const code = writeSource(`
import signal
for number in range(1, 32):
    try: signal.signal(number, signal.SIG_IGN)
    except Exception: pass
print("ready")
while True: pass
yield {}`)
  const call = zygote.call(
    { op: 'read', stream: 'a', code },
    { signal: cancel.signal, log: () => cancel.abort(new Error('cancelled')) },
  )
  await assert.rejects(call, /cancelled/)
})

test('a preview and a check that hang end with an answer', async () => {
  const hanging = writeSource('while True: pass\nyield {}').replace('return True', 'import time; time.sleep(60)')
  const preview = await previewSource({ code: hanging, stream: 'a', zygote, wall_seconds: 0.5, validate: false })
  assert.deepEqual(
    { ...preview, records: String(preview.records), execution_time_ms: 0 },
    {
      success: false,
      records: '[]',
      total_count: 0,
      execution_time_ms: 0,
      error: 'the source did not finish within 0.5 seconds, the time limit for this call',
      logs: [],
    },
  )
  assert.ok(preview.execution_time_ms >= 500)
  await assert.rejects(requireConnection({ code: hanging, zygote, wall_seconds: 0.3 }), /0.3 seconds/)
})

const roomy = openCells()

test('HTTP in a preview has its own limits, far below those of a run', async () => {
  const server = createServer((request, response) => {
    response.end(request.url === '/large' ? Buffer.alloc(9 << 20) : Buffer.alloc(7 << 20))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const egress = openEgress()
  const preview = async (body: string) => {
    const code = writeSource(body)
    return (await previewSource({ code, stream: 'a', zygote: roomy, egress, validate: false })).error
  }
  assert.match((await preview(`self.http.get("${url}/large")\nyield {}`))!, /the limit for a preview or check 8388608/)
  assert.match((await preview(`for n in range(5): self.http.get("${url}/")\nyield {}`))!, /33554432 bytes/)
  assert.match(
    (await preview(`for n in range(201): self.http.head("${url}/")\nyield {}`))!,
    /200 HTTP requests \(the limit for a preview or check\)/,
  )
  server.close()
})

test('a preview ends when its records together grow too large, however few they are', async () => {
  const large = writeSource('for n in range(1000): yield {"n": n, "text": "x" * (1 << 19)}')
  const { success, error, records, total_count } = await previewSource({
    code: large,
    stream: 'a',
    zygote: roomy,
    max_records: 1000,
  })
  assert.deepEqual([success, total_count], [false, 0])
  const yielded = JSON.parse(String(records)).length
  assert.ok(yielded > 20 && yielded <= 32, 'what fits into 16 MB')
  assert.equal(error, 'the records take more than 16 MB; request fewer with max_records')
  const few = await previewSource({ code: large, stream: 'a', zygote: roomy, max_records: 4 })
  assert.deepEqual([few.success, few.total_count], [true, 4])
})
