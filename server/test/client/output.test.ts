/** What is printed: cleaned, cut to the terminal, counted in columns. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { cleanBlock, cleanLine, toJson } from '../../src/client/clean.ts'
import { readEvents } from '../../src/client/event-stream.ts'
import { findPlace } from '../../src/client/findings.ts'
import { createProgress, describeFigures, layOutProgress } from '../../src/client/progress.ts'
import { layOut } from '../../src/client/table.ts'
import { cutTo, widthOf } from '../../src/client/text-width.ts'
import { formatBytes, formatDuration } from '../../src/client/words.ts'

const DANGEROUS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/
const hostile = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom(
        '\x1b[2J',
        '\x1b]0;title\x07',
        '\x1b]52;c;aGk=\x1b\\',
        '\x9b31m',
        '\x1bP1$r\x1b\\',
        '\x1bc',
        '\r',
        '\n',
        '\t',
      ),
    ),
  )
  .map((parts) => parts.join(''))

test('no control character but tab and newline is left of any text', () => {
  fc.assert(
    fc.property(hostile, (text) => {
      assert.doesNotMatch(cleanBlock(text), DANGEROUS)
      assert.doesNotMatch(cleanLine(text), /[\t\n]/)
      assert.doesNotMatch(cleanLine(text), DANGEROUS)
    }),
  )
})

test('an escape sequence goes as a whole, and the text around it stays', () => {
  assert.equal(cleanLine('a\x1b[31mred\x1b[0m b'), 'ared b')
  assert.equal(cleanLine('x\x1b]0;my title\x07y'), 'xy')
  assert.equal(cleanLine('x\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\'), 'xlink')
  assert.equal(cleanLine('one\r\ntwo\rthree'), 'one two three')
  assert.equal(cleanLine('\u202egnp.exe'), 'gnp.exe')
  assert.equal(cleanBlock('unterminated \x1b]0;title and more'), 'unterminated 0;title and more')
})

test('JSON keeps every character, escaped', () => {
  fc.assert(
    fc.property(hostile, (text) => {
      const json = toJson({ text })
      assert.doesNotMatch(json, DANGEROUS)
      assert.doesNotMatch(json, /\n/)
      assert.deepEqual(JSON.parse(json), { text })
    }),
  )
})

test('a table never exceeds the terminal unless what must stay whole does, and elsewhere nothing is cut', () => {
  const columns = [{ title: 'NAME' }, { title: 'ID', whole: true }, { title: 'ERROR', extra: true }]
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.string({ unit: 'grapheme' }), fc.stringMatching(/^[0-9a-f]{0,36}$/), fc.string()), {
        maxLength: 20,
      }),
      fc.integer({ min: 60, max: 200 }),
      (rows, width) => {
        const clean = rows.map((row) => row.map(cleanLine))
        for (const cells of layOut(columns, clean, width))
          assert.ok(widthOf(cells.map(({ text }) => text).join('')) <= width)
        for (const [index, cells] of layOut(columns, clean, null).slice(1).entries())
          assert.deepEqual(
            cells.map(({ text }) => text.trim()),
            clean[index]!.map((text) => text.trim()),
          )
      },
    ),
  )
})

test('where there is no room, extra columns go before an id is cut', () => {
  const id = '5c1b0be7-ad02-4cf8-8eb7-5fb518958696'
  const [, row] = layOut(
    [{ title: 'RUN', whole: true }, { title: 'PIPELINE' }, { title: 'ERROR', extra: true }],
    [[id, 'A pipeline with a long name', 'source: it failed']],
    50,
  )
  assert.deepEqual(
    row!.map(({ text }) => text),
    [`${id}  `, 'A pipeline …'],
  )
})

test('wide and combining characters are counted as a terminal shows them', () => {
  assert.equal(widthOf('日本'), 4)
  assert.equal(widthOf('e\u0301'), 1)
  assert.equal(cutTo('日本語', 5), '日本…')
  assert.equal(cutTo('abc', 3), 'abc')
})

test('the live line of a run is never as wide as the terminal, and has no number that is none', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }),
      fc.integer({ min: 0, max: 200 }),
      fc.array(
        fc.record({ ms: fc.nat(20_000), records_read: fc.nat(), bytes_written: fc.nat(), isPending: fc.boolean() }),
        { maxLength: 6 },
      ),
      (given, width, samples) => {
        let now = 1000
        const progress = createProgress(() => now)
        const name = cleanLine(given)
        for (const { ms, isPending, ...counts } of samples) {
          now += ms
          progress.add({ status: isPending ? 'pending' : 'running', ...counts })
          const line = layOutProgress({ bar: progress.bar(), name, status: 'running' }, progress.now(), width)
          const text = line.map((part) => (typeof part === 'string' ? part : part.text)).join('')
          assert.ok(widthOf(text) < Math.max(1, width), `${width}: ${text}`)
          assert.doesNotMatch(text.replace(name, ''), /NaN|Infinity|undefined|-\d/)
        }
      },
    ),
    { numRuns: 500 },
  )
})

test('the rate is that of the last seconds, by records and by bytes, and begins again with another attempt', () => {
  let now = 0
  const progress = createProgress(() => now)
  const add = (seconds: number, records: number, status: 'pending' | 'running' = 'running') => {
    now = seconds * 1000
    progress.add({ status, records_read: records, bytes_written: records * 1000 })
    return describeFigures(progress.now())[0]
  }
  assert.equal(add(0, 0, 'pending'), '0 records, 0 B, 0 records/s, 0 B/s, 0 ms')
  assert.equal(add(10, 0), '0 records, 0 B, 0 records/s, 0 B/s, 0 ms')
  assert.equal(add(12, 10_000), '10,000 records, 10.0 MB, 5,000 records/s, 5.0 MB/s, 2 s')
  for (let second = 13; second <= 20; second++) add(second, 10_000 + second)
  assert.equal(add(21, 10_021), '10,021 records, 10.0 MB, 1.0 records/s, 1.0 kB/s, 11 s')
  assert.equal(add(22, 500), '500 records, 500 kB, 0 records/s, 0 B/s, 12 s')
  const wide = layOutProgress({ bar: '█', name: 'Orders', status: 'running' }, progress.now(), 120)
  assert.equal(
    wide.map((part) => (typeof part === 'string' ? part : part.text)).join(''),
    '█ Orders: running 500 records, 500 kB, 0 records/s, 0 B/s, 12 s',
  )
})

test('sizes and times are short', () => {
  const sizes = ['0 B', '999 B', '1.0 kB', '1.0 MB', '12.3 MB']
  assert.deepEqual([0, 999, 1000, 999_950, 12_345_678].map(formatBytes), sizes)
  assert.deepEqual([12, 1500, 61_000, 3_660_000].map(formatDuration), ['12 ms', '1 s', '1 min 1 s', '1 h 1 min'])
})

test('events are read however they are cut into pieces', async () => {
  const text = ': hello\n\nid: 1\nevent: line\ndata: grüße\n\nevent: end\ndata: {}\n\n'
  const bytes = Buffer.from(text)
  for (let at = 1; at < bytes.length; at++) {
    async function* pieces() {
      yield bytes.subarray(0, at)
      yield bytes.subarray(at)
    }
    const events = []
    for await (const event of readEvents(pieces())) events.push(event)
    assert.deepEqual(events, [
      { id: '1', event: 'line', data: 'grüße' },
      { id: '', event: 'end', data: '{}' },
    ])
  }
})

test('an event without an end is refused, not kept', async () => {
  async function* endless() {
    for (;;) yield Buffer.alloc(64 * 1024, 'x')
  }
  await assert.rejects(readEvents(endless()).next(), /more than 1 MB/)
})

test('the place of an exception has the column that Python marks', () => {
  const code = 'def f():\n    x = 1\n    return [1, 2][x + 7]\n'
  const logs = [
    'ERROR Traceback',
    '  File "source.py", line 3, in f',
    '    return [1, 2][x + 7]',
    '           ~~~~~~^^^^^^^',
  ]
  assert.deepEqual(findPlace(code, logs), { line: 3, column: 11 })
  assert.deepEqual(findPlace(code, logs.slice(0, 2)), { line: 3, column: 4 })
  assert.equal(findPlace(code, ['no traceback']), null)
})
