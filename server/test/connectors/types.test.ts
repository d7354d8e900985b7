/** Neutral types: how they are written, which type holds which, and that their text format is the same everywhere. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Column, Destination, Page, Source } from '../../src/connectors/contract.ts'
import { openEngine, quoteText } from '../../src/connectors/duckdb.ts'
import { widenDeclared } from '../../src/connectors/postgres/destination/widening.ts'
import {
  declaredType,
  describeColumn,
  neutralType,
  postgresType,
} from '../../src/connectors/postgres/shared/type-names.ts'
import { type ColumnType, formatType, isColumnType, parseType } from '../../src/connectors/types/column-types.ts'
import { fitsFloat32, fitsFloat64 } from '../../src/connectors/types/digits.ts'
import { RecordEncoder } from '../../src/connectors/types/record-encoder.ts'
import { escapeField } from '../../src/connectors/types/tsv.ts'
import { commonType } from '../../src/connectors/types/widening.ts'
import { Type } from '../../src/schema.ts'
import { lineSource } from '../harness/line-source.ts'
import { openPostgresBench, type PostgresBench } from '../harness/postgres-bench.ts'
import { sqliteDestination } from '../harness/sqlite-destination.ts'
import { parseRows } from '../harness/tsv-rows.ts'

describe('names of types', () => {
  it('survive a round trip', () => {
    for (const type of ['boolean', 'int64', 'decimal', 'decimal(10,2)', 'text[]', 'decimal(38,0)[]', 'timestamptz'])
      assert.equal(formatType(parseType(type)!), type)
  })

  it('are refused if they are invalid', () => {
    for (const type of [
      '',
      'int8',
      'decimal(2,3)',
      'decimal(0,0)',
      'text(5)',
      'text[][]',
      'int64); DROP TABLE x',
      'Text',
    ])
      assert.equal(isColumnType(type), false, type)
  })
})

describe('a column that must hold two types', () => {
  const cases: [ColumnType, ColumnType, ColumnType][] = [
    ['int16', 'int64', 'int64'],
    ['int32', 'decimal(12,2)', 'decimal(12,2)'],
    ['int32', 'decimal(10,2)', 'decimal(12,2)'],
    ['int64', 'decimal', 'decimal'],
    ['decimal(10,2)', 'decimal(12,4)', 'decimal(12,4)'],
    ['decimal(38,2)', 'decimal(38,30)', 'decimal'],
    ['decimal(40,2)', 'decimal(10,2)', 'decimal(40,2)'],
    ['float32', 'float64', 'float64'],
    ['int16', 'float32', 'float32'],
    ['int32', 'float32', 'float64'],
    ['int64', 'float64', 'decimal'],
    ['float64', 'decimal(10,2)', 'decimal'],
    ['date', 'timestamp', 'timestamp'],
    ['date', 'timestamptz', 'text'],
    ['timestamp', 'timestamptz', 'text'],
    ['time', 'timestamp', 'text'],
    ['boolean', 'int16', 'text'],
    ['uuid', 'text', 'text'],
    ['json', 'text', 'text'],
    ['int16[]', 'int32[]', 'int32[]'],
    ['int16[]', 'int16', 'text'],
  ]
  for (const [one, other, common] of cases)
    it(`${one} and ${other} is ${common}`, () => {
      assert.equal(commonType(one, other), common)
      assert.equal(commonType(other, one), common)
    })
})

describe('types of PostgreSQL', () => {
  it('have a neutral one, and survive a round trip', () => {
    const cases: Record<string, ColumnType> = {
      bigint: 'int64',
      'numeric(10,2)': 'decimal(10,2)',
      numeric: 'decimal',
      'numeric(3,-2)': 'decimal',
      'character varying(20)': 'text',
      'timestamp(3) with time zone': 'timestamptz',
      'time with time zone': 'text',
      'interval day to second(3)': 'interval',
      jsonb: 'json',
      bytea: 'bytes',
      inet: 'text',
      'int4range[]': 'text[]',
      'numeric(10,2)[]': 'decimal(10,2)[]',
      mood: 'text',
    }
    for (const [type, neutral] of Object.entries(cases)) assert.equal(neutralType(type), neutral, type)
    for (const type of ['int4range', 'timestamptz(3)', 'varchar(20)', 'bpchar(3)', 'inet[]', 'json'])
      assert.equal(declaredType(describeColumn('a', type)), type)
  })

  it('are derived from the neutral one if the column comes from elsewhere', () => {
    const column: Column = {
      name: 'a',
      type: 'decimal(10,2)',
      native: { system: 'mysql', type: 'decimal(10,2) unsigned' },
    }
    assert.equal(declaredType(column), 'numeric(10,2)')
    assert.equal(postgresType('json'), 'jsonb')
    assert.equal(postgresType('bytes[]'), 'bytea[]')
    assert.equal(postgresType('decimal(2000,2)'), 'numeric')
  })

  it('widen if a value would be rounded, truncated or shifted, and stay if PostgreSQL decides', () => {
    const cases: [have: string, declared: string, becomes: string | null][] = [
      ['int4', 'int8', 'int8'],
      ['int8', 'int4', null],
      ['int4', 'numeric(10,2)', 'numeric(12,2)'],
      ['numeric(10,2)', 'numeric(12,2)', 'numeric(12,2)'],
      ['numeric(12,2)', 'numeric(10,2)', null],
      ['numeric(3,-2)', 'int4', 'numeric'],
      ['float8', 'numeric', 'numeric'],
      ['float8', 'int8', 'numeric'],
      ['float4', 'float8', 'float8'],
      ['int4', 'text', 'text'],
      ['int4', 'varchar(5)', 'text'],
      ['boolean', 'int4', 'text'],
      ['date', 'timestamp', 'timestamp'],
      ['date', 'timestamp(0)', 'timestamp(0)'],
      ['timestamp', 'date', null],
      ['timestamp(0)', 'timestamp', 'timestamp'],
      ['timestamp(0)', 'timestamp(3)', 'timestamp(3)'],
      ['timestamp', 'timestamp(0)', null],
      ['timestamp', 'timestamptz', 'text'],
      ['timestamptz', 'timestamp', 'text'],
      ['time', 'timetz', 'text'],
      ['time(0)', 'time', 'time'],
      ['timetz', 'time', 'text'],
      ['interval day to second', 'interval', 'interval'],
      ['varchar(10)', 'text', 'text'],
      ['varchar(10)', 'varchar(5)', null],
      ['varchar(36)', 'uuid', null],
      ['uuid', 'text', null],
      ['inet', 'text', null],
      ['mood', 'text', null],
      ['jsonb', 'json', null],
      ['jsonb', 'int4', 'text'],
      ['bytea', 'text', 'text'],
      ['int4[]', 'int8[]', 'int8[]'],
      ['int4[]', 'text', 'text'],
      ['text', 'int4[]', null],
    ]
    for (const [have, declared, becomes] of cases)
      assert.equal(widenDeclared(have, declared), becomes, `${have} ← ${declared}`)
    assert.equal(widenDeclared('jsonb', 'int4', 'ndjson'), null)
  })
})

it('a number fits a float if every digit survives', () => {
  for (const text of ['0.1', '-0', '1e300', '0.30000000000000004', '123456789012345', '5e-324'])
    assert.ok(fitsFloat64(text), text)
  for (const text of ['0.1234567890123456789', '9007199254740993', '1e400', '1e-400'])
    assert.ok(!fitsFloat64(text), text)
  for (const text of ['0.1', '16777216', '1.1754944e-38', '0.33333334']) assert.ok(fitsFloat32(text), text)
  for (const text of ['16777217', '0.123456789', '1e39', '1e-60']) assert.ok(!fitsFloat32(text), text)
})

it('lists in JSON become lists in tab-separated text', () => {
  const encoder = new RecordEncoder([
    { key: 'a', type: 'text[]' },
    { key: 'b', type: 'int64' },
  ])
  const lines = [
    String.raw`{"a":["x","a\"b\\c\t\u0000",null,"NULL",""],"b":1}`,
    '{"a":[[1.50,true],[{"n":12345678901234567890}]],"b":2}',
    `{"a":${JSON.stringify(['"'.repeat(5000)])},"b":3}`,
  ]
  const page = Buffer.from(lines.map((line) => `${line}\n`).join(''))
  assert.equal(encoder.encode(page, 0).records, 3)
  const rows = parseRows(encoder.take())
  assert.deepEqual(rows.slice(0, 2), [
    ['{"x","a\\"b\\\\c\t\ufffd",NULL,"NULL",""}', '1'],
    ['{{1.50,t},{"{\\"n\\":12345678901234567890}"}}', '2'],
  ])
  assert.deepEqual(rows[2], [`{"${'\\"'.repeat(5000)}"}`, '3'])
  assert.equal(encoder.replaced, 1)
})

describe('the text form of typed rows', () => {
  /** A value of each type as PostgreSQL writes it in SQL, and as the contract writes it in a row. */
  const values: [type: ColumnType, sql: string, text: string | null][] = [
    ['boolean', 'true', 't'],
    ['int16', '(-32768)::int2', '-32768'],
    ['int32', '2147483647', '2147483647'],
    ['int64', '(-9223372036854775808)::int8', '-9223372036854775808'],
    ['float32', '0.1::float4', '0.1'],
    ['float64', '0.1::float8 + 0.2::float8', '0.30000000000000004'],
    ['float64', "'NaN'::float8", 'NaN'],
    ['decimal', '12345678901234567890.12345678901234567890', '12345678901234567890.12345678901234567890'],
    ['decimal(10,2)', '1.5::numeric(10,2)', '1.50'],
    ['text', String.raw`E'tab\t new\n back\\ N \\N'`, 'tab\t new\n back\\ N \\N'],
    ['text', 'NULL::text', null],
    ['bytes', String.raw`'\x000aff'::bytea`, '\\x000aff'],
    ['date', "'2024-02-29'::date", '2024-02-29'],
    ['time', "'23:59:59.000001'::time", '23:59:59.000001'],
    ['timestamp', "'2024-01-01 10:00:00.5'::timestamp", '2024-01-01 10:00:00.5'],
    ['timestamptz', "'2024-01-01 10:00:00+05:30'::timestamptz", '2024-01-01 04:30:00+00'],
    ['interval', "'1 year 2 mons 3 days 04:05:06.7'::interval", '1 year 2 mons 3 days 04:05:06.7'],
    ['uuid', "'9F0C3D2E-0000-4000-8000-000000000000'::uuid", '9f0c3d2e-0000-4000-8000-000000000000'],
    ['json', `'{"a": [1, "x\\ty"]}'::json`, '{"a": [1, "x\\ty"]}'],
    ['int32[]', 'ARRAY[1, NULL, 3]', '{1,NULL,3}'],
    ['text[]', String.raw`ARRAY['a b', 'q"\', 'NULL']`, '{"a b","q\\"\\\\","NULL"}'],
  ]
  const row = Buffer.from(`${values.map(([, , text]) => escapeField(text)).join('\t')}\n`)
  let p: PostgresBench
  before(async () => {
    p = await openPostgresBench()
  })
  after(() => p?.close())

  it('is what PostgreSQL writes, and what it reads unchanged', async () => {
    await p.query(`CREATE TABLE typed AS SELECT ${values.map(([, sql], at) => `${sql} AS c${at}`).join(', ')}`)
    const taken: Page[] = []
    let columns: Column[] | null = null
    const done = async (): Promise<void> => {}
    const keep: Destination = {
      ...(sqliteDestination as unknown as Destination),
      name: 'keep',
      settings: Type.Object({}),
      capabilities: { write: ['replace'], encodings: ['tsv', 'ndjson'], commits: 'output' },
      fence: async () => null,
      async open(context) {
        columns = context.columns
        return { write: async (page) => void taken.push(page), commit: done, publish: done, abort: done }
      },
    }
    const source = { name: 'postgres', stream: 'public.typed', config: p.config }
    const outcome = await p.bench.run(p.bench.job({ source, destination: { name: 'keep' } }), {
      destination: keep,
    })
    assert.deepEqual(
      columns!.map(({ type }) => type),
      values.map(([type]) => type),
    )
    assert.equal(taken[0]!.bytes.toString(), row.toString())
    assert.equal((await p.bench.readOutput(outcome)).toString(), row.toString())
    assert.equal(outcome.output!.content_type, 'text/tab-separated-values')
    await p.bench.run(
      p.bench.job({ source, destination: { name: 'postgres', config: { ...p.config, table: 'typed_copy' } } }),
    )
    const [before, after] = await Promise.all(
      ['typed', 'typed_copy'].map((table) => p.query(`SELECT row_to_json(t)::text AS row FROM ${table} t`)),
    )
    assert.deepEqual(after, before)
  })

  it('is the same in JSON lines, except where JSON has its own notation', async () => {
    const inJson = ([type, , text]: (typeof values)[number]): string => {
      if (text === null) return 'null'
      if (type === 'json') return text
      if (type === 'boolean') return text === 't' ? 'true' : 'false'
      if (type === 'int32[]') return '[1,null,3]'
      if (type === 'text[]') return JSON.stringify(['a b', 'q"\\', 'NULL'])
      if (text !== 'NaN' && /^(int\d|float|decimal)/.test(type)) return text
      return JSON.stringify(/^timestamp/.test(type) ? text.replace(' ', 'T') : text)
    }
    const line = `{${values.map((value, at) => `"c${at}":${inJson(value)}`).join(',')}}`
    const plain = lineSource([line])
    const columns: Column[] = values.map(([type], at) => ({ name: `c${at}`, type }))
    const source: Source = {
      ...plain,
      name: `${plain.name}_typed`,
      read: async (context) => ({ ...(await plain.read(context)), columns }),
    }
    const destination = { name: 'postgres', config: { ...p.config, table: 'typed_lines' } }
    await p.bench.run(p.bench.job({ source, destination }))
    const types = await p.query<{ type: string }>(
      `SELECT format_type(atttypid, atttypmod) AS type FROM pg_attribute WHERE attrelid = 'typed_lines'::regclass AND attnum > 0 ORDER BY attnum`,
    )
    assert.deepEqual(
      types.map(({ type }) => neutralType(type)),
      values.map(([type]) => type),
    )
    const { rows } = await p.client.query({
      text: `SELECT ${values.map((_, at) => `c${at}::text`).join(', ')} FROM typed_lines`,
      rowMode: 'array',
    })
    assert.deepEqual(
      rows[0],
      values.map(([type, , text]) => (type === 'boolean' ? 'true' : type === 'json' ? '{"a": [1, "x\\ty"]}' : text)),
    )
  })

  it('is what DuckDB parses, except for lists', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'sluice-types-'))
    const engine = await openEngine(folder, AbortSignal.timeout(20_000))
    try {
      const file = path.join(folder, 'rows.tsv')
      await writeFile(file, row)
      const types: Partial<Record<ColumnType, string>> = {
        int16: 'SMALLINT',
        int32: 'INTEGER',
        int64: 'BIGINT',
        float32: 'FLOAT',
        float64: 'DOUBLE',
        decimal: 'DECIMAL(38,18)',
        'decimal(10,2)': 'DECIMAL(10,2)',
        text: 'VARCHAR',
        bytes: 'VARCHAR',
      }
      const plain = values.map(([type], at) => ({ type, at })).filter(({ type }) => !type.endsWith('[]'))
      const names = values.map((_, at) => `'c${at}': 'VARCHAR'`).join(', ')
      const rows = `read_csv(${quoteText(file)}, delim = '\t', quote = '', escape = '', nullstr = '\\N', header = false, auto_detect = false, columns = {${names}})`
      // Backslashes last: what they escape has already been replaced.
      const decode = (cell: string) =>
        `replace(replace(replace(replace(${cell}, '\\\\', chr(1)), '\\t', chr(9)), '\\n', chr(10)), chr(1), '\\')`
      const cells = plain.map(
        ({ type, at }) => `CAST(${decode(`c${at}`)} AS ${types[type] ?? type.toUpperCase()})::VARCHAR`,
      )
      const result = await engine.connection.runAndReadAll(`SELECT ${cells.join(', ')} FROM ${rows}`)
      const got = result.getRowsJson()[0]!
      const same: Record<string, string> = {
        t: 'true',
        NaN: 'nan',
        '12345678901234567890.12345678901234567890': '12345678901234567890.123456789012345679',
        '1 year 2 mons 3 days 04:05:06.7': '1 year 2 months 3 days 04:05:06.7',
      }
      for (const [place, { at, type }] of plain.entries()) {
        const text = values[at]![2]
        assert.equal(got[place], text === null ? null : (same[text] ?? text), type)
      }
    } finally {
      engine.close()
      await rm(folder, { recursive: true, force: true })
    }
  })
})
