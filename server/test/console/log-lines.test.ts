/** The lines of a log that the console knows, and the rows that it gives them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LogLines, splitLine } from '../../../web/src/pages/run/log/log-lines.ts'

const answer = (from: number, to: number, more: boolean, skip: [number, number] | null = null) => {
  const numbers = Array.from({ length: to - from + 1 }, (_, index) => from + index).filter(
    (number) => skip === null || number < skip[0] || number > skip[1],
  )
  return { logs: numbers.map((number) => `line ${number}\n`).join(''), numbers, more }
}
const rowsOf = (lines: LogLines) => Array.from({ length: lines.rows }, (_, row) => lines.numberAt(row))

test('the end of a long log is enough to know how many lines there are', () => {
  const lines = new LogLines()
  lines.addPage(answer(99_001, 100_000, true), null)
  assert.equal(lines.rows, 100_000)
  assert.equal(lines.numberAt(99_999), 100_000)
  assert.equal(lines.textOf(100_000), 'line 100000')
  assert.equal(lines.textOf(5), undefined)
  lines.addPage(answer(1, 1000, false), 1001)
  assert.equal(lines.textOf(5), 'line 5')
  assert.equal(lines.rows, 100_000)
})

test('lines that were omitted have no row, and all others keep their order', () => {
  const lines = new LogLines()
  lines.addPage(answer(1, 20, false, [6, 15]), null)
  assert.deepEqual(rowsOf(lines), [1, 2, 3, 4, 5, 16, 17, 18, 19, 20])
  assert.deepEqual(
    [1, 5, 9, 16, 20].map((number) => lines.rowOf(number)),
    [0, 4, 5, 5, 9],
  )
  for (const number of rowsOf(lines)) assert.equal(lines.numberAt(lines.rowOf(number)), number)
})

test('an answer that ends before what was asked for tells where the gap is', () => {
  const lines = new LogLines()
  lines.addPage(answer(91, 100, true), null)
  lines.addPage(answer(1, 5, false), 51)
  assert.equal(lines.rows, 55)
  lines.addPage(answer(1, 90, false, [6, 80]), 91)
  assert.equal(lines.rows, 25)
  assert.deepEqual(rowsOf(lines).slice(3, 7), [4, 5, 81, 82])
})

test('millions of omitted lines need no row before the gap is known', () => {
  const lines = new LogLines()
  lines.addPage(answer(9_000_001, 9_001_000, true), null)
  assert.equal(lines.rows, 500_000)
  assert.equal(lines.numberAt(lines.rows - 1), 9_001_000)
  assert.equal(lines.rowOf(9_001_000), lines.rows - 1)
  lines.addPage(answer(1, 100, false), 9_000_001)
  assert.equal(lines.rows, 1100)
  assert.equal(lines.numberAt(100), 9_000_001)
})

test('lines that follow are appended, and a jump in their numbers is a gap', () => {
  const lines = new LogLines()
  lines.addPage(answer(1, 3, false), null)
  lines.append(4, 'line 4')
  lines.append(9, '… 4 lines were omitted here')
  lines.append(10, 'line 10')
  assert.deepEqual(rowsOf(lines), [1, 2, 3, 4, 9, 10])
})

test('a line is its time, its level and its text', () => {
  assert.deepEqual(splitLine('2026-11-16T10:00:00.123Z INFO  Read 5 records'), {
    time: '2026-11-16T10:00:00.123Z',
    level: 'info',
    text: 'Read 5 records',
  })
  assert.deepEqual(splitLine('2026-11-16T10:00:00.123Z ERROR   indented'), {
    time: '2026-11-16T10:00:00.123Z',
    level: 'error',
    text: '  indented',
  })
  assert.deepEqual(splitLine('… 5 lines were omitted'), { time: null, level: null, text: '… 5 lines were omitted' })
})
