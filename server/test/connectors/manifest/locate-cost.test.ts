/** Where findings are in the text of a manifest, at a cost that no manifest can drive up. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseDocument } from 'yaml'
import { openLocator } from '../../../src/connectors/manifest/locate.ts'

/** Of this process, so that others do not count. */
function cpuMs(act: () => unknown): number {
  const before = process.cpuUsage()
  act()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

const manifest = (streams: string[], definitions: string[] = []): string =>
  ['type: DeclarativeSource', 'definitions:', ...definitions, '  last: {}', 'streams:', ...streams, ''].join('\n')

test('a finding is at the words that it quotes, in the stream that it names', () => {
  const text = manifest(['  - name: a', '    path: one', '  - name: b', '    path: one', '    wrong: "x y"'])
  const { locate } = openLocator(text)
  assert.deepEqual(locate('b: "one" is no path'), { line: 8, column: 10 })
  assert.deepEqual(locate('b: "x y" is unknown'), { line: 9, column: 12 })
  assert.deepEqual(locate('b: nothing that is there'), { line: 7, column: 4 })
  assert.deepEqual(locate('there is nothing'), { line: 1, column: 0 })
})

test('streams that refer to one another cost little more than reading the document', () => {
  const count = 120
  const all = Array.from({ length: count }, (_, at) => `#/definitions/s${at}`).join("', '")
  const definitions = Array.from({ length: count }, (_, at) => `  s${at}: { name: s${at}, streams: ['${all}'] }`)
  const text = manifest([`  - '${all.replaceAll("', '", "'\n  - '")}'`], definitions)
  const reading = cpuMs(() => parseDocument(text))
  const locating = cpuMs(() => assert.equal(openLocator(text).locate('s0: unknown').line, 3))
  assert.ok(locating < 3 * reading + 500, `${locating} ms, reading it ${reading} ms`)
})

test('very long findings are cut, and after a budget they are at the start of their component', () => {
  const text = manifest(['  - name: a', `    path: ${'ab '.repeat(150_000)}`, '  - name: b', '    path: two'])
  const { locate } = openLocator(text)
  assert.deepEqual(locate(`b: ${'x'.repeat(3000)} "two"`), { line: 7, column: 4 })
  const words = Array.from({ length: 300 }, (_, at) => `"a${at}"`).join(' ')
  const spent = cpuMs(() => {
    for (let count = 0; count < 500; count += 1) assert.deepEqual(locate(`b: ${words}`), { line: 7, column: 4 })
  })
  assert.ok(spent < 5000, `${spent} ms`)
  assert.deepEqual(locate('b: "two" is wrong'), { line: 7, column: 4 })
})
