import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { pythonSource } from '../../src/cell/python-source.ts'
import { openCells, readPages, readSource, SMALL_LIMITS, writeSource } from './harness.ts'

const zygote = openCells({ limits: SMALL_LIMITS })

/** Reads numbers after the one in the state, and sets the state after every tenth. */
const NUMBERS = writeSource(`
start = self.state.get("last", 0)
for i in range(start + 1, 2001):
    yield SourceRecord(str(i), {"i": i, "text": "x" * 200})
    if i % 10 == 0:
        self.state["last"] = i`)

test('a cursor covers exactly the records before it', async () => {
  const { records, cursors } = await readSource(zygote, NUMBERS)
  assert.equal(records.length, 2000)
  assert.ok(cursors.length >= 3)
  for (const { after, cursor } of cursors) assert.deepEqual(cursor, { last: after })
  assert.deepEqual(cursors.at(-1), { after: 2000, cursor: { last: 2000 } })
})

test('a read that was interrupted at any page resumes without gaps and repetitions', async () => {
  const whole = await readSource(zygote, NUMBERS)
  for (const { after, cursor } of whole.cursors) {
    const rest = await readSource(zygote, NUMBERS, { state: { last: 3 }, resume: cursor })
    assert.deepEqual([...whole.lines.slice(0, after), ...rest.lines], whole.lines)
  }
})

test('an incremental read starts with the state of the last one', async () => {
  const { records, cursors } = await readSource(zygote, NUMBERS, { state: { last: 1990 } })
  assert.deepEqual(
    records.map(({ i }) => i),
    Array.from({ length: 10 }, (_, index) => 1991 + index),
  )
  assert.deepEqual(cursors, [{ after: 10, cursor: { last: 2000 } }])
})

test('a nested state counts when it is changed in place or replaced', async () => {
  const { cursors } = await readSource(
    zygote,
    writeSource(`
self.state = {"pages": []}
for page in range(3):
    yield SourceRecord(str(page), {"page": page})
    self.state["pages"].append(page)`),
  )
  assert.deepEqual(cursors.at(-1), { after: 3, cursor: { pages: [0, 1, 2] } })
})

test('a state set before the first record is not a cursor until all have come', async () => {
  const { records, cursors, failure } = await readSource(
    zygote,
    writeSource(`
self.state["since"] = "now"
for i in range(3000): yield SourceRecord(str(i), {"text": "x" * 200})
raise ValueError("too late")`),
  )
  assert.equal(failure?.message, 'ValueError: too late')
  assert.ok(records.length > 0)
  assert.deepEqual(cursors, [])
})

test('a source without a state has no cursors and declares that it cannot resume', async () => {
  const code = writeSource('for i in range(10): yield SourceRecord(str(i), {"i": i})\n# self.state is not used')
  const { cursors, records } = await readSource(zygote, code, { state: { last: 5 } })
  assert.deepEqual({ cursors, records: records.length }, { cursors: [], records: 10 })
  const declare = (code: string) =>
    pythonSource({ source_name: 's', display_name: 'S', description: '', code, streams: ['a'] }).capabilities
  assert.equal(declare(code).resumable, false)
  assert.equal(declare(NUMBERS).resumable, true)
})

test('the cell waits while its pages are not consumed', async () => {
  const logs: string[] = []
  const code = writeSource(`
for i in range(200_000):
    if i % 1000 == 0: print(i)
    yield SourceRecord(str(i), {"text": "x" * 200})`)
  const pages = readPages(zygote, code, {}, logs)[Symbol.asyncIterator]()
  let taken = 0
  for (let page = 0; page < 50; page++) {
    taken += (await pages.next()).value?.records ?? 0
    // Everything that has arrived by now is read in these turns of the event loop.
    for (let turn = 0; turn < 50; turn++) await setImmediate()
    const ahead = Number(logs.at(-1)?.slice('source: '.length)) - taken
    // Only the kernel's buffer and a few pages may be between the two.
    assert.ok(ahead < 5000, `the cell is ${ahead} records ahead`)
  }
  await pages.return?.(undefined)
})

test('an abort ends the reading with its reason', async () => {
  const stop = new AbortController()
  const pages = readPages(zygote, NUMBERS.replace('2001', '10**9'), { signal: stop.signal }, [])[Symbol.asyncIterator]()
  await pages.next()
  stop.abort(new Error('cancelled by its owner'))
  await assert.rejects(async () => {
    while (!(await pages.next()).done);
  }, /cancelled by its owner/)
})

test('credentials are fetched when the author reads them, and never shown in a log or error', async () => {
  const authentication = { type: 'bearer', params: { token: 'tok-1234567890' } }
  const code = writeSource(`
print("token", self.authentication.params["token"], self.authentication.type)
yield SourceRecord("1", {"length": len(self.authentication.token)})
raise RuntimeError("failed with " + self.authentication.params["token"])`)
  const { records, logs, failure } = await readSource(zygote, code.replace(/raise.*/, ''), { authentication })
  assert.equal(failure, null)
  assert.deepEqual(records, [{ _record_id: '1', length: 14 }])
  assert.deepEqual(logs, ['source: token ******** bearer'])
  const second = await readSource(zygote, code, { authentication })
  assert.equal(second.failure?.message, 'RuntimeError: failed with ********')
  assert.doesNotMatch(second.logs.join('\n') + second.failure.traceback, /tok-1234567890/)
})
