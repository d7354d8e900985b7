import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { ColumnChoice } from '../../src/connectors/contract.ts'
import { columnChooser } from '../../src/engine/columns.ts'

function choose(choice: ColumnChoice, ...lines: string[]): string[] {
  const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''))
  const page = columnChooser(choice)({ bytes, records: lines.length, cursor: 7 })
  assert.equal(page.records, lines.length)
  assert.equal(page.cursor, 7)
  return page.bytes.toString().split('\n').slice(0, -1)
}
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

describe('the selection of columns', () => {
  it('keeps values byte for byte', () => {
    const line = '{"a":12345678901234567890.1234567890,"b":{"x":[1.10,"}"]},"c":"\\u00e9\\"é","d":-0}'
    assert.deepEqual(choose({ exclude: ['zz'] }, line), [line])
    assert.deepEqual(choose({ include: ['b', 'a'] }, line), [
      '{"a":12345678901234567890.1234567890,"b":{"x":[1.10,"}"]}}',
    ])
    assert.deepEqual(choose({ include: [] }, line), ['{}'])
  })

  it('renames, and recognises a name however it is written', () => {
    assert.deepEqual(choose({ rename: { é: 'e "acute" 🦦' } }, '{"\\u00e9":1}', '{"é" : 2 }'), [
      '{"e \\"acute\\" 🦦":1}',
      '{"e \\"acute\\" 🦦":2}',
    ])
    assert.deepEqual(choose({ exclude: ['constructor'] }, '{"constructor":1,"__proto__":2}'), ['{"__proto__":2}'])
  })

  it('hashes the text of strings and the JSON of the rest, and leaves null', () => {
    assert.deepEqual(choose({ hash: ['m', 'n', 'o'] }, '{"m":"ann@example.org","n":1.50,"o":null}'), [
      `{"m":"${sha256('ann@example.org')}","n":"${sha256('1.50')}","o":null}`,
    ])
    assert.deepEqual(choose({ hash: ['m'] }, '{"m":"\\u00e9"}'), choose({ hash: ['m'] }, '{"m":"é"}'))
  })

  it('refuses what is not an object', () => {
    for (const bad of ['[1]', '1', '{', '{"a"}', '{"a":}', '{"a":1', '{"a":"x', '{a:1}', '{"a":1}}{'.slice(0, 4)]) {
      assert.throws(() => choose({ include: ['a'] }, bad), /not a JSON object/, bad)
    }
  })

  it('agrees with parsing for any object', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue()), fc.nat(5), (record, spaces) => {
        // A line of JSON lines never contains a newline, so only spaces are used.
        const line = JSON.stringify(record, null, ' '.repeat(spaces)).replaceAll(/\n */g, ' ')
        const [first] = Object.keys(record)
        const expected = Object.fromEntries(Object.entries(record).filter(([name]) => name !== first))
        const [chosen] = choose({ exclude: first === undefined ? ['none'] : [first] }, line)
        assert.equal(JSON.stringify(JSON.parse(chosen!)), JSON.stringify(expected))
      }),
      { numRuns: 300 },
    )
  })
})
