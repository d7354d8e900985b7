import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { createPageQueue } from '../../src/connectors/postgres/destination/page-queue.ts'
import type { ColumnType } from '../../src/connectors/types/column-types.ts'
import { kindOfString } from '../../src/connectors/types/iso-times.ts'
import { inferType, Kind, widenType } from '../../src/connectors/types/kinds.ts'
import { createNamer, makeSafe, mysqlNames, postgresNames } from '../../src/connectors/types/names.ts'
import { RecordEncoder } from '../../src/connectors/types/record-encoder.ts'
import { MalformedJson } from '../../src/json/malformed.ts'
import { parseRows } from '../harness/tsv-rows.ts'

function encodeAll(lines: string[], types?: Record<string, ColumnType>) {
  const page = Buffer.from(lines.map((line) => `${line}\n`).join(''))
  const encoder = new RecordEncoder([])
  const columns = [...encoder.survey(page, 0)].map(([key, kinds]) => ({
    key,
    type: types?.[key] ?? inferType(kinds) ?? 'text',
  }))
  encoder.setColumns(columns)
  const { next, records } = encoder.encode(page, 0)
  assert.equal(next, page.length)
  return { columns, records, rows: parseRows(encoder.take()), encoder }
}

describe('JSON lines to tab-separated text', () => {
  it('keeps every value, whatever the records are', () => {
    const value = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
      fc.constant(null),
      fc.jsonValue(),
    )
    const record = fc.dictionary(fc.string({ unit: 'grapheme', maxLength: 6 }), value, { maxKeys: 8 })
    fc.assert(
      fc.property(
        fc.array(record, { minLength: 1, maxLength: 12 }),
        fc.constantFrom<ColumnType>('text', 'json'),
        (records, type) => {
          const lines = records.map((item) => JSON.stringify(item))
          const keys = [...new Set(records.flatMap((item) => Object.keys(item)))]
          const { columns, rows } = encodeAll(lines, Object.fromEntries(keys.map((key) => [key, type])))
          for (const [at, item] of records.entries()) {
            for (const [index, { key }] of columns.entries()) {
              const given = Object.hasOwn(item, key) ? item[key] : null
              const got = rows[at]![index]!
              if (given === null || given === undefined) assert.equal(got, null)
              else if (type === 'json')
                assert.deepEqual(JSON.parse(got), JSON.parse(JSON.stringify(given).replaceAll('\\u0000', '\\ufffd')))
              else if (typeof given === 'string') assert.equal(got, given.replaceAll('\0', '\ufffd'))
              else assert.deepEqual(JSON.parse(got), JSON.parse(JSON.stringify(given).replaceAll('\\u0000', '\\ufffd')))
            }
          }
        },
      ),
      { numRuns: 300 },
    )
  })

  it('writes records that match their columns exactly like any other', () => {
    const text = fc.string({
      unit: fc.constantFrom('a', 'ü', ' ', '{', ',', '"', '\\', '\n', '\u{1F9A6}'),
      maxLength: 6,
    })
    const record = fc.record({
      s: fc.option(text),
      i: fc.option(fc.maxSafeInteger()),
      d: fc.option(fc.double({ noNaN: true, noDefaultInfinity: true })),
      b: fc.option(fc.boolean()),
      n: fc.option(fc.oneof(fc.array(text, { maxLength: 3 }), fc.constant({ x: 1 }))),
      t: fc.constantFrom('2024-01-01T00:00:00Z', null),
    })
    const spaced = (line: string) => line.replace(/^\{"s":/, '{"s": ').replace(/,"b":/, ', "b":')
    fc.assert(
      fc.property(fc.array(record, { minLength: 1, maxLength: 20 }), fc.boolean(), (records, blanks) => {
        const lines = records.map((item) => (blanks ? spaced(JSON.stringify(item)) : JSON.stringify(item)))
        const { columns, rows } = encodeAll(lines)
        for (const [at, item] of records.entries()) {
          for (const [index, { key }] of columns.entries()) {
            const given = item[key as keyof typeof item]
            const got = rows[at]![index]!
            if (given === null) assert.equal(got, null)
            else if (typeof given === 'string') assert.equal(got, given)
            else assert.deepEqual(JSON.parse(got), JSON.parse(JSON.stringify(given)))
          }
        }
      }),
      { numRuns: 400 },
    )
    for (const wrong of ['{"b":tXue}', '{"b":fals}', '{"b":nulx}']) {
      const encoder = new RecordEncoder([{ key: 'b', type: 'boolean' }])
      assert.throws(() => encoder.encode(Buffer.from(`${wrong}\n`), 0), MalformedJson)
    }
  })

  it('keeps every digit of numbers', () => {
    const { rows, columns } = encodeAll([
      '{"a":12345678901234567890123,"b":0.10000000000000000000001,"c":9007199254740993,"d":2.50}',
    ])
    assert.deepEqual(rows, [['12345678901234567890123', '0.10000000000000000000001', '9007199254740993', '2.50']])
    assert.deepEqual(
      columns.map(({ type }) => type),
      ['decimal', 'decimal', 'int64', 'decimal'],
    )
  })

  it('handles keys that change their order, repeat or are written with escapes', () => {
    const { rows } = encodeAll(['{"a":1,"b":2}', '{ "b" : 3 , "a" : 4 }', '{"\\u0061":5,"a":6}', '{}', ''])
    assert.deepEqual(rows, [
      ['1', '2'],
      ['4', '3'],
      ['6', null],
      [null, null],
    ])
  })

  it('replaces what PostgreSQL cannot store, and counts it', () => {
    const { rows, encoder } = encodeAll(['{"t":"a\\u0000b\\ud800c\\udc00","n":{"x":"\\u0000\\ud83d\\ude00\\ud800"}}'])
    assert.deepEqual(rows, [['a\ufffdb\ufffdc\ufffd', '{"x":"\\ufffd\\ud83d\\ude00\\ufffd"}']])
    assert.equal(encoder.replaced, 5)
  })

  it('stops before the first record that does not fit, and continues once it may', () => {
    const page = Buffer.from('{"a":1}\n{"a":2}\n{"a":"x"}\n{"a":3}\n')
    const encoder = new RecordEncoder([{ key: 'a', type: 'int64' }])
    const stop = encoder.encode(page, 0)
    assert.deepEqual(stop, { next: 16, records: 2 })
    assert.deepEqual([...encoder.survey(page, stop.next)], [['a', Kind.text]])
    encoder.setColumns([{ key: 'a', type: 'text' }])
    assert.deepEqual(encoder.encode(page, stop.next), { next: page.length, records: 2 })
    assert.deepEqual(parseRows(encoder.take()), [['1'], ['2'], ['x'], ['3']])
  })

  for (const broken of [
    '[1]',
    '{"a":1',
    '{"a":1}}',
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{a:1}',
    '{"a":"tab\there"}',
    '{"a":"no end}',
    '{"a":nul}',
    'x',
  ]) {
    it(`refuses ${broken}`, () => {
      const encoder = new RecordEncoder([{ key: 'a', type: 'text' }])
      assert.throws(() => encoder.encode(Buffer.from(`${broken}\n{"a":1}\n`), 0), MalformedJson)
    })
  }
})

describe('types', () => {
  const cases: [string, number][] = [
    ['2024-02-29', Kind.date],
    ['2023-02-29', Kind.text],
    ['1900-02-29', Kind.text],
    ['0000-01-01', Kind.text],
    ['2024-01-01T00:00:00', Kind.timestamp],
    ['2024-01-01T00:00:00.123456', Kind.timestamp],
    ['2024-01-01T00:00:00.1234567Z', Kind.text],
    ['2024-01-01T00:00:00Z', Kind.timestamptz],
    ['1883-11-18T12:03:58.5-04:56', Kind.timestamptz],
    ['2024-01-01T24:00:00Z', Kind.text],
    ['2024-01-01T00:00:60Z', Kind.text],
    ['2024-01-01 00:00:00Z', Kind.text],
    ['2024-01-01T00:00:00+0530', Kind.text],
    ['2024-13-01', Kind.text],
    ['20240101', Kind.text],
  ]
  for (const [text, kind] of cases) {
    it(`of ${text}`, () => assert.equal(kindOfString(Buffer.from(text), 0, text.length), kind))
  }

  it('widen until everything fits, and never narrow', () => {
    assert.equal(widenType('int64', Kind.number), 'decimal')
    assert.equal(widenType('int32', Kind.integer), 'int64')
    assert.equal(widenType('decimal', Kind.text), 'text')
    assert.equal(widenType('decimal(10,2)', Kind.number), 'decimal')
    assert.equal(widenType('float64', Kind.number), 'decimal')
    assert.equal(widenType('date', Kind.timestamp), 'timestamp')
    assert.equal(widenType('date', Kind.timestamptz), 'text')
    assert.equal(widenType('int64', Kind.nested), 'json')
    assert.equal(widenType('text', Kind.nested), null)
    assert.equal(widenType('json', Kind.text), null)
    assert.equal(widenType('uuid', Kind.text), null)
  })
})

describe('names of columns', () => {
  it('stay unchanged if possible, and are unique', () => {
    const name = createNamer(postgresNames)
    assert.equal(name('Order Id'), 'Order Id')
    assert.equal(name('a\nb'), 'a_b')
    assert.equal(name('a_b'), 'a_b_2')
    assert.equal(name(''), '_')
    assert.equal(createNamer(mysqlNames, ['id'])('ID'), 'ID_2')
  })

  it('are shortened to 63 bytes without cutting a character, and stay distinct', () => {
    const long = 'ü'.repeat(60)
    const [first, second] = [makeSafe(`${long}1`, postgresNames), makeSafe(`${long}2`, postgresNames)]
    assert.ok(Buffer.byteLength(first) <= 63)
    assert.notEqual(first, second)
    assert.doesNotMatch(first, /\ufffd/)
    assert.equal(makeSafe(`${long}1`, postgresNames), first)
  })
})

it('typed rows reach PostgreSQL without U+0000, and the log counts how many there were', () => {
  const declared = [{ name: 'a', type: 'text' as const }]
  const queue = createPageQueue({ encoding: 'tsv', declared, existing: null, contract: 'evolve' })
  queue.add({ bytes: Buffer.from('x\0y\n'), records: 1 })
  queue.add({ bytes: Buffer.from('é\n'), records: 1 })
  assert.deepEqual(
    queue.take().map(({ rows }) => rows.toString()),
    ['x\ufffdy\n', 'é\n'],
  )
  assert.match(queue.report().join(), /^1 characters that PostgreSQL cannot store/)
})
