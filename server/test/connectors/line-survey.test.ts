import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { openEngine } from '../../src/connectors/duckdb.ts'
import { createCsvWriter, csvHeader } from '../../src/connectors/formats/csv-writer.ts'
import { jsonRowsOf } from '../../src/connectors/formats/json-query.ts'
import { LineSurvey, surveyLines } from '../../src/connectors/formats/line-survey.ts'
import { chooseOutputColumns } from '../../src/connectors/formats/output-columns.ts'
import { csvRowsOf, parquetQuery } from '../../src/connectors/formats/parquet-query.ts'
import type { LineFacts } from '../../src/connectors/types/column-facts.ts'
import { jsonTexts } from '../harness/json-cases.ts'

const survey = (lines: readonly string[]): LineFacts => {
  const all = new LineSurvey()
  surveyLines(all, Buffer.from(lines.map((line) => `${line}\n`).join('')))
  return all.take()
}

/** By the general code alone. */
function surveyClosely(lines: readonly string[]): LineFacts {
  const all = new LineSurvey()
  for (const line of lines) all.addLine(Buffer.from(line), 0, Buffer.byteLength(line))
  return all.take()
}

const number = fc.oneof(
  fc.integer().map(String),
  fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n }).map(String),
  fc.tuple(fc.integer(), fc.nat()).map(([whole, part]) => `${whole}.${part}`),
  fc.constantFrom('-0', '0.10', '1e5', '1.5E-7', '9223372036854775807', '9223372036854775808', '12345678.123456789'),
)
const text = fc.oneof(
  fc.string().map((value) => JSON.stringify(value)),
  fc.constantFrom('"2024-02-29"', '"2024-02-30"', '"2024-01-01T00:00:00"', '"2024-01-01T00:00:00.5+01:00"', '""'),
  fc.constantFrom('"\\u0041\\n"', '"\\u0000"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\/"'),
)
const value = fc.oneof(number, text, fc.constantFrom('true', 'false', 'null', '[1, {"a": 0.10}]', '{"b":"}"}'))
const key = fc.constantFrom('"a"', '"b"', '"é"', '"\\u00e9"', '"c d"')
const line = fc
  .tuple(fc.array(fc.tuple(key, value), { maxLength: 6 }), fc.constantFrom('', ' '))
  .map(([fields, blank]) => `{${fields.map(([name, each]) => `${name}:${blank}${each}`).join(`,${blank}`)}}`)

describe('a survey of lines', () => {
  test('finds the same with the fast scan as with the general code', () => {
    fc.assert(
      fc.property(fc.array(line, { maxLength: 8 }), (lines) => {
        const [fast, closely] = [survey(lines), surveyClosely(lines)]
        assert.deepEqual(
          fast.columns.toSorted((one, other) => (one.name < other.name ? -1 : 1)),
          closely.columns.toSorted((one, other) => (one.name < other.name ? -1 : 1)),
        )
        assert.equal(fast.longest, closely.longest)
      }),
      { numRuns: 3000 },
    )
  })

  test('accepts no line that is not a JSON object', () => {
    fc.assert(
      fc.property(fc.oneof(jsonTexts.object, jsonTexts.damaged), (given) => {
        const bytes = Buffer.from(`${given}\n`)
        const next = new LineSurvey().scanLine(bytes, 0)
        if (next < 0) return
        const parsed = JSON.parse(bytes.toString('utf8', 0, next))
        assert.ok(typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed))
      }),
      { numRuns: 6000 },
    )
  })

  test('tells lines of which parsers may disagree', () => {
    for (const given of ['{"a":1,"a":2}', '{"a":"\\u0000"}', '{"a":"\\udc00"}', '{"a":[1.0]}', '{"é":1,"\\u00e9":2}'])
      assert.equal(survey([given]).odd, true, given)
    assert.equal(survey(['{"a":1,"b":"\\u00e9\\n"}', '{"b":null}']).odd, false)
  })

  test('of records with ever-changing keys ends with a sentence', () => {
    const lines = Array.from({ length: 10_001 }, (_, at) => `{"k${at}":1}`)
    assert.throws(() => survey(lines), /more than 10000 different fields/)
  })
})

/** Writes the lines to Parquet, read by DuckDB itself or through a CSV of ours, and reads that. */
async function convert(lines: readonly string[], itself: boolean): Promise<unknown[][] | null> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-survey-'))
  const engine = await openEngine(folder, new AbortController().signal)
  try {
    const [input, output] = [path.join(folder, 'rows'), path.join(folder, 'rows.parquet')]
    const facts = survey(lines)
    const { columns } = chooseOutputColumns(null, facts.columns, null)
    const page = Buffer.from(lines.map((each) => `${each}\n`).join(''))
    const names = columns.map(({ name }) => name)
    await writeFile(input, itself ? page : Buffer.concat([csvHeader(names), createCsvWriter(names)(page)]))
    const rows = itself ? jsonRowsOf(input, columns, facts) : csvRowsOf(input, columns, facts.longest)
    if (rows === null) return null
    await engine.connection.run(parquetQuery({ rows, output, columns, compression: 'none' }))
    const all = await engine.connection.runAndReadAll(`SELECT * FROM read_parquet('${output}')`)
    const types = await engine.connection.runAndReadAll(`DESCRIBE SELECT * FROM read_parquet('${output}')`)
    return [...types.getRowsJson(), ...all.getRowsJson()]
  } finally {
    engine.close()
    await rm(folder, { recursive: true, force: true })
  }
}

describe('lines that DuckDB reads itself', () => {
  test('give the same file, value by value, as through text', async () => {
    const plain = [
      '{"id":1,"d":0.29,"f":"x","t":"2024-02-29T12:00:00.123456Z","day":"0001-01-01","ok":true,"s":"a\\"b\\\\c\\n,é"}',
      '{"s":"","id":-9223372036854775808,"d":1234567890123.45,"ok":false,"extra":null}',
      '{"d":-0.01,"id":null,"t":"9999-12-31T23:59:59-15:59","day":"9999-12-31","f":"2024-01-01"}',
      '{"d":5,"later":"2024-01-01T00:00:00","f":"007"}',
      '{"later":"2024-01-01","d":0}',
    ]
    const direct = await convert(plain, true)
    assert.ok(direct)
    assert.deepEqual(direct, await convert(plain, false))
  })

  test('are only those of which nothing can be lost', async () => {
    for (const given of [
      '{"a":0.1234567890123456}', // Digits that a double does not have.
      '{"a":1e400}',
      '{"a":123456789012345678901}',
      '{"a":[1.0,2]}',
      '{"a":"x","A":"y"}', // DuckDB takes these for one column.
      '{"":1}',
      '{"a":1,"a":2}',
    ])
      assert.equal(await convert([given], true), null, given)
    // A number and a text together keep the spelling of the number.
    assert.equal(await convert(['{"a":0.10}', '{"a":"x"}'], true), null)
  })

  test('of any decimals that fit are the same to the last digit', async () => {
    const lines = Array.from({ length: 20_000 }, (_, at) => {
      const digits = String((at * 7919 * 104_729) % 10 ** 12).padStart(7, '1')
      return `{"n":${at % 2 ? '-' : ''}${Number(digits.slice(0, -6))}.${digits.slice(-6, at % 5 === 0 ? -2 : undefined)}}`
    })
    assert.deepEqual(await convert(lines, true), await convert(lines, false))
  })
})
