import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { buffer } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { gunzipSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { type Column, ConnectorError, type Source } from '../../src/connectors/contract.ts'
import { openEngine } from '../../src/connectors/duckdb.ts'
import { fileSource } from '../../src/connectors/file/source.ts'
import type { Job, Outcome } from '../../src/engine/execute.ts'
import { nastyRows, plainRows } from '../harness/conformance.ts'
import { type FileServer, startFileServer } from '../harness/file-server.ts'
import { assertSameRows } from '../harness/ledger.ts'
import { lineSource } from '../harness/line-source.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'
import { sourceContext } from '../harness/source-context.ts'

let bench: RunBench
let server: FileServer
before(async () => {
  bench = await openRunBench()
  server = await startFileServer()
})
after(async () => {
  await server.close()
  await bench.close()
})

async function write(lines: string[], config: Record<string, unknown>): Promise<{ outcome: Outcome; bytes: Buffer }> {
  const outcome = await bench.run(bench.job({ source: lineSource(lines), destination: { name: 'file', config } }))
  return { outcome, bytes: await bench.readOutput(outcome) }
}

/** The columns of a Parquet file and their types in it. */
async function parquetTypes(bytes: Buffer): Promise<Record<string, string>> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-parquet-'))
  const engine = await openEngine(folder, AbortSignal.timeout(20_000))
  try {
    await writeFile(path.join(folder, 'file'), bytes)
    const result = await engine.connection.runAndReadAll(`DESCRIBE SELECT * FROM read_parquet('${folder}/file')`)
    return Object.fromEntries(result.getRowsJson().map((row) => [String(row[0]), String(row[1])]))
  } finally {
    engine.close()
    await rm(folder, { recursive: true })
  }
}

async function read(config: Record<string, unknown>, outputs = {}): Promise<string[]> {
  const source = { name: 'file', stream: 'rows', config }
  const outcome = await bench.run(bench.job({ source, destination: { name: 'file' } }, { outputs }))
  return (await bench.readOutput(outcome)).toString().split('\n').slice(0, -1)
}

function fails(config: Record<string, unknown>, kind: string, message: RegExp): Promise<void> {
  return assert.rejects(read(config), (error: unknown) => {
    assert.ok(error instanceof ConnectorError)
    assert.equal(error.kind, kind)
    assert.match(error.message, message)
    return true
  })
}

describe('csv', () => {
  it('writes a header, every column of any record, and numbers unchanged', async () => {
    const { bytes, outcome } = await write(
      ['{"id":1,"n":0.10,"t":"a,\\"b\\"\\nc","o":{"x":[1]}}', '{"id":2,"t":"","late":12345678901234567890123}'],
      { format: 'csv' },
    )
    assert.equal(
      bytes.toString(),
      'id,n,t,o,late\n1,0.10,"a,""b""\nc","{""x"":[1]}",\n2,,"",,12345678901234567890123\n',
    )
    assert.equal(outcome.output?.content_type, 'text/csv')
  })

  it('reads back what it wrote', async () => {
    const { bytes } = await write(plainRows(3000), { format: 'csv', compression: 'gzip' })
    assert.equal(gunzipSync(bytes).toString().split('\n').length, 3002)
    const rows = await read({ url: server.put('rows.csv.gz', bytes) })
    assertSameRows(
      rows,
      plainRows(3000).map((row) => row.replace(/"tags":(.*)\}/, (_, tags) => `"tags":${JSON.stringify(tags)}}`)),
    )
  })

  it('keeps leading zeros, trailing zeros, huge numbers and the difference between empty and null', async () => {
    const url = server.put(
      'codes.csv',
      'zip,price,big,flag,note\n007,1.10,123456789012345678901234567890,true,\n08150,2.5,1,false,""\n',
    )
    assert.deepEqual(await read({ url }), [
      '{"zip":"007","price":1.10,"big":123456789012345678901234567890,"flag":true,"note":null}',
      '{"zip":"08150","price":2.5,"big":1,"flag":false,"note":""}',
    ])
  })

  it('detects the delimiter, or is given one, and works without a header', async () => {
    assert.deepEqual(await read({ url: server.put('semi.csv', 'a;b\n1;x,y\n2;z,w\n') }), [
      '{"a":1,"b":"x,y"}',
      '{"a":2,"b":"z,w"}',
    ])
    const url = server.put('bare.csv', '1|x\n2|y\n')
    assert.deepEqual(await read({ url, delimiter: '|', header: false }), [
      '{"column0":1,"column1":"x"}',
      '{"column0":2,"column1":"y"}',
    ])
  })

  it('infers the type of a column from the whole file', async () => {
    const rows = Array.from({ length: 5000 }, (_, at) => `${at},${at < 3000 ? '' : at},${at < 4999 ? at : 'x'}`)
    const read5000 = (await read({ url: server.put('late.csv', `a,late,spoiled\n${rows.join('\n')}\n`) })).map((row) =>
      JSON.parse(row),
    )
    assert.deepEqual(read5000[0], { a: 0, late: null, spoiled: '0' })
    assert.deepEqual(read5000[4999], { a: 4999, late: 4999, spoiled: 'x' })
  })

  it('names the line of an error, but not the path of the file', async () => {
    const rows = Array.from({ length: 50_000 }, (_, at) => `${at},x`).join('\n')
    await fails({ url: server.put('broken.csv', `a,b\n${rows}\n1,2,3,4\n`) }, 'source', /^(?!.*sluice-file).*50002/s)
  })
})

describe('parquet', () => {
  it('reads back every difficult value it wrote', async () => {
    const { bytes, outcome } = await write(nastyRows(), { format: 'parquet' })
    assert.equal(outcome.output?.extension, 'parquet')
    assert.equal(bytes.toString('latin1', 0, 4), 'PAR1')
    const rows = await read({ url: server.put('nasty', bytes) })
    // Numbers that no column type holds exactly, and nested values, are text.
    const expected = nastyRows().map((row) =>
      row
        .replace(/"part":([^,]+),/, (_, part) => `"part":"${part}",`)
        .replace(/"nested":(.*)\}$/, (_, nested) => `"nested":${JSON.stringify(nested)}}`),
    )
    assertSameRows(rows, expected)
  })

  it('returns bytes, times and numbers that JSON lacks as the contract defines', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'sluice-parquet-'))
    const engine = await openEngine(folder, AbortSignal.timeout(20_000))
    const file = path.join(folder, 'typed.parquet')
    await engine.connection.run(
      `COPY (SELECT * FROM (VALUES ('\\x00\\xFF'::BLOB, TIME '10:00:00.5', 'NaN'::DOUBLE, 1.50::DECIMAL(10,2)), (NULL, NULL, '-inf'::DOUBLE, NULL)) t(b, t, f, d)) TO '${file}' (FORMAT parquet)`,
    )
    engine.close()
    const rows = await read({ url: server.put('typed.parquet', await readFile(file)) })
    await rm(folder, { recursive: true })
    assert.deepEqual(rows, [
      '{"b":"\\\\x00ff","t":"10:00:00.5","f":"NaN","d":1.50}',
      '{"b":null,"t":null,"f":"-Infinity","d":null}',
    ])
  })

  it('is a valid file even without records', async () => {
    const { bytes } = await write([], { format: 'parquet' })
    assert.deepEqual(await read({ url: server.put('none.parquet', bytes) }), [])
  })

  it('keeps decimals and times of a source that declares nothing, inferred from all records', async () => {
    const { bytes } = await write(
      [
        '{"price":1.50,"big":12345678901234567890.5,"day":"2024-02-29","at":"2024-01-01T10:00:00Z","local":"2024-01-01","mixed":"2024-01-01T10:00:00Z","wide":1e-30}',
        '{"price":-20,"big":0.125,"day":null,"at":"2024-01-01T10:00:00.5+02:00","local":"2024-01-01T10:00:00","mixed":"2024-01-01T10:00:00","wide":1e30}',
      ],
      { format: 'parquet' },
    )
    assert.deepEqual(await parquetTypes(bytes), {
      price: 'DECIMAL(18,2)',
      big: 'DECIMAL(38,3)',
      day: 'DATE',
      at: 'TIMESTAMP WITH TIME ZONE',
      local: 'TIMESTAMP',
      mixed: 'VARCHAR',
      wide: 'DOUBLE',
    })
    assert.deepEqual(await read({ url: server.put('kept.parquet', bytes) }), [
      '{"price":1.50,"big":12345678901234567890.500,"day":"2024-02-29","at":"2024-01-01T10:00:00Z","local":"2024-01-01T00:00:00","mixed":"2024-01-01T10:00:00Z","wide":1e-30}',
      '{"price":-20.00,"big":0.125,"day":null,"at":"2024-01-01T08:00:00.5Z","local":"2024-01-01T10:00:00","mixed":"2024-01-01T10:00:00","wide":1e+30}',
    ])
  })
})

describe('a file from a source that declares its columns', () => {
  const columns: Column[] = [
    { name: 'id', type: 'int32' },
    { name: 'price', type: 'decimal(10,2)' },
    { name: 'any', type: 'decimal' },
    { name: 'day', type: 'date' },
    { name: 'clock', type: 'time' },
    { name: 'at', type: 'timestamptz' },
    { name: 'key', type: 'uuid' },
    { name: 'raw', type: 'bytes' },
    { name: 'small', type: 'float32' },
    { name: 'deep', type: 'json' },
    { name: 'list', type: 'int32[]' },
    { name: 'span', type: 'interval' },
    { name: 'flag', type: 'boolean' },
    { name: 'words', type: 'text' },
  ]
  const types = {
    id: 'INTEGER',
    price: 'DECIMAL(10,2)',
    any: 'DECIMAL(38,18)',
    day: 'DATE',
    clock: 'TIME',
    at: 'TIMESTAMP WITH TIME ZONE',
    key: 'UUID',
    raw: 'BLOB',
    small: 'FLOAT',
    deep: 'JSON',
    list: 'JSON',
    span: 'VARCHAR',
    flag: 'BOOLEAN',
    words: 'VARCHAR',
  }
  const row =
    '{"id":1,"price":1.5,"any":0.25,"day":"2024-02-29","clock":"10:00:00.5","at":"2024-01-01T10:00:00+00:00","key":"9f0c3d2e-0000-4000-8000-000000000000","raw":"\\\\x00ff","small":0.1,"deep":{"a":[1.50]},"list":[1,null],"span":"1 mon","flag":true,"words":"2024-01-01"}'
  const typed = (rows: string[]): Source => {
    const plain = lineSource(rows)
    return {
      ...plain,
      name: `${plain.name}_typed`,
      read: async (context) => ({ ...(await plain.read(context)), columns }),
    }
  }
  const convert = async (rows: string[], format: string, overrides: Partial<Job> = {}) => {
    const job = bench.job({ source: typed(rows), destination: { name: 'file', config: { format } } }, overrides)
    const attempt = bench.start(job)
    const outcome = await attempt.done
    return { bytes: await bench.readOutput(outcome), attempt }
  }

  it('has their types in Parquet, whatever the values are, and without any', async () => {
    const nulls = `{${columns.map(({ name }) => `"${name}":null`).join(',')}}`
    for (const rows of [[row], [nulls], [], [row, nulls, '{}']])
      assert.deepEqual(await parquetTypes((await convert(rows, 'parquet')).bytes), types)
    const back = await read({ url: server.put('typed', (await convert([row], 'parquet')).bytes) })
    assert.match(back[0]!, /"price":1\.50,"any":0\.25,/, 'a decimal without limits comes back without added zeros')
    assertSameRows(back, [row.replace('+00:00', 'Z')])
  })

  it('has their names in the CSV header, even without records', async () => {
    const header = columns.map(({ name }) => name).join(',')
    assert.equal((await convert([], 'csv')).bytes.toString(), `${header}\n`)
    assert.equal((await convert(['{"words":"x"}'], 'csv')).bytes.toString(), `${header}\n${','.repeat(13)}x\n`)
  })

  it('has only the selected ones, under their new names', async () => {
    const chosen = { include: ['id', 'price', 'words'], rename: { price: 'cost' }, hash: ['id'] }
    const { bytes } = await convert([row], 'parquet', { columns: chosen })
    assert.deepEqual(await parquetTypes(bytes), { id: 'VARCHAR', cost: 'DECIMAL(10,2)', words: 'VARCHAR' })
  })

  it('keeps as text what Parquet cannot hold, with a warning; an undeclared field is added', async () => {
    const { bytes, attempt } = await convert(
      ['{"any":0.1234567890123456789012345678901234567890,"day":"infinity","more":7}'],
      'parquet',
    )
    const found = await parquetTypes(bytes)
    assert.deepEqual([found.any, found.day, found.more], ['VARCHAR', 'VARCHAR', 'BIGINT'])
    const [back] = await read({ url: server.put('texts', bytes) })
    assert.match(back!, /"any":"0.1234567890123456789012345678901234567890","day":"infinity"/)
    assert.equal(attempt.log.filter((line) => /is text in this file/.test(line)).length, 2)
  })

  it('fails with a clear message if a value does not have its type', async () => {
    await assert.rejects(convert(['{"id":99999999999}'], 'parquet'), /does not have the type that the source declares/)
  })

  it('without records has the columns of the last one, if the source declares nothing', async () => {
    const into = { name: 'file', config: { format: 'csv' } }
    const first = bench.job({ source: lineSource(['{"a":1,"b":"2024-01-01"}']), destination: into })
    const attempt = bench.start(first)
    await attempt.done
    const schema = attempt.schemas[0]!.columns
    assert.deepEqual(schema, [
      { name: 'a', type: 'int64' },
      { name: 'b', type: 'date' },
    ])
    const empty = bench.job({ source: lineSource([]), destination: into }, { schema })
    assert.equal((await bench.readOutput(await bench.run(empty))).toString(), 'a,b\n')
    const parquet = { name: 'file', config: { format: 'parquet' } }
    const none = await bench.run(bench.job({ source: lineSource([]), destination: parquet }, { schema }))
    assert.deepEqual(await parquetTypes(await bench.readOutput(none)), { a: 'BIGINT', b: 'DATE' })
  })
})

describe('json lines', () => {
  it('pass through byte for byte, decompressed, without blank lines and byte order mark', async () => {
    const lines = nastyRows()
    const url = server.put(
      'some.bin',
      gzipSync(`\ufeff${lines.slice(0, 5).join('\n')}\n\n  \n${lines.slice(5).join('\r\n')}`),
    )
    assert.deepEqual(
      (await read({ url })).map((line) => line.trimEnd()),
      lines,
    )
  })

  it('are refused with the line number if a line is not an object', async () => {
    await fails({ url: server.put('bad1.jsonl', '{"a":1}\n{"a":\n') }, 'source', /Line 2 .* not valid JSON/)
    await fails({ url: server.put('bad2.jsonl', '{"a":1}\n[1]\n') }, 'source', /Line 2 .* not an object/)
    await fails(
      { url: server.put('bad3.jsonl', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d, 0x0a])) },
      'source',
      /UTF-8/,
    )
  })
})

describe('a json array', () => {
  it('has one record per element, whatever its layout and name, and keeps every digit', async () => {
    const objects = nastyRows()
    const compact = `[${objects.join(',')}]`
    const indented = `\ufeff \n[\n  ${objects.join(' ,\r\n\t')}\n]\n`
    for (const [name, body] of [
      ['data.json', compact],
      ['data', indented],
      ['data.json.gz', gzipSync(indented)],
    ] as const)
      assert.deepEqual(await read({ url: server.put(name, body) }), objects, name)
    const pretty = JSON.stringify([{ a: 'x\n y', b: [1, { c: null }] }, {}], null, 2)
    assert.deepEqual(await read({ url: server.put('pretty.json', pretty) }), [
      '{"a":"x\\n y","b":[1,{"c":null}]}',
      '{}',
    ])
    assert.deepEqual(await read({ url: server.put('none.json', ' [ ] ') }), [])
    assert.deepEqual(await read({ url: server.put('lines.json', '{"a":1}\n{"a":2}\n') }), ['{"a":1}', '{"a":2}'])
    assert.deepEqual(await read({ url: server.put('x.csv', '[{"a":1}]'), format: 'json' }), ['{"a":1}'])
  })

  it('is refused if it is cut off, damaged, or holds something else than objects', async () => {
    const rows = plainRows(3000)
    const wrong: [string, RegExp][] = [
      [`[${rows.join(',')}`, /ends inside its JSON array, after 3000 elements; it is damaged or truncated/],
      [`[${rows.join(',')},`, /ends inside its JSON array/],
      [`[${rows.join(',')},]`, /Element 3001 of the JSON array is not an object/],
      ['[1, 2]', /Element 1 of the JSON array is not an object; each must be an object/],
      ['[{"a":1} {"a":2}]', /Element 1 of the JSON array is not followed by a comma or \]/],
      ['[{"a":1}, {"a":1 2}]', /Element 2 of the file is not valid JSON/],
      ['[{"a":[}]]', /Element 1 of the file is not valid JSON/],
      ['[{"a":"b\nc"}]', /Element 1 of the JSON array has a control character in a string/],
      ['[{"a":1}]\n[{"a":2}]', /more text after the JSON array/],
    ]
    for (const [body, message] of wrong) await fails({ url: server.put('wrong.json', body) }, 'source', message)
    await fails({ url: server.put('one.jsonl', '[{"a":1}]') }, 'source', /array of objects is read with format json/)
    await fails({ url: server.put('o.json', '{"a":1}'), format: 'json' }, 'source', /not a JSON array/)
  })
})

describe('the description of a file', () => {
  const describeFile = async (config: Record<string, unknown>) => {
    const [description] = await fileSource.describe(sourceContext(bench, fileSource, { config }), ['rows'])
    const { columns, estimated_rows } = description!
    return { columns: columns?.map(({ name, type }) => `${name} ${type}`) ?? null, estimated_rows }
  }

  it('comes from its beginning', async () => {
    assert.deepEqual(
      await describeFile({ url: server.put('a.jsonl', '{"a":1,"b":"2024-01-01"}\n{"a":1.5,"c":null}') }),
      {
        columns: ['a decimal', 'b date', 'c text'],
        estimated_rows: 2,
      },
    )
    assert.deepEqual(await describeFile({ url: server.put('a.csv', 'zip,n,on\n007,1,true\n08,2.5,false\n') }), {
      columns: ['zip text', 'n decimal', 'on boolean'],
      estimated_rows: 2,
    })
    const long = Array.from({ length: 40_000 }, (_, at) => `{"id":${at},"text":"${'x'.repeat(60)}"}`).join('\n')
    assert.deepEqual(await describeFile({ url: server.put('long.jsonl', long) }), {
      columns: ['id int64', 'text text'],
      estimated_rows: null,
    })
    assert.deepEqual(await describeFile({ url: server.put('long.json', `[${long.replaceAll('\n', ',')}]`) }), {
      columns: ['id int64', 'text text'],
      estimated_rows: null,
    })
    assert.deepEqual(await describeFile({ url: server.put('a.json', '[{"a":1}, {"a":2.5}]') }), {
      columns: ['a decimal'],
      estimated_rows: 2,
    })
    assert.deepEqual(await describeFile({ url: server.put('empty.jsonl', '') }), { columns: [], estimated_rows: 0 })
  })

  it('comes from the end of a Parquet file, with its number of rows', async () => {
    const { bytes } = await write(['{"id":1,"flag":true}', '{"id":2,"flag":null}'], { format: 'parquet' })
    assert.deepEqual(await describeFile({ url: server.put('small.parquet', bytes) }), {
      columns: ['id int64', 'flag boolean'],
      estimated_rows: 2,
    })
  })
})

describe('the place of a file', () => {
  it('may be the output of a run of the same organization, as the worker passed it on', async () => {
    const { outcome } = await write(plainRows(500), {})
    const run_id = '11111111-2222-4333-8444-555555555555'
    assertSameRows(await read({ run_id }, { [run_id]: outcome.output!.parts }), plainRows(500))
    await fails({ run_id }, 'config', /has no readable output/)
  })

  it('may not be a database, in whatever format it is said to be', async () => {
    const run_id = '11111111-2222-4333-8444-555555555555'
    for (const name of ['sqlite', 'duckdb']) {
      const job = bench.job({ source: lineSource(['{"id":1}']), destination: { name, config: { table: 't' } } })
      const { output } = await bench.run(job)
      const told = new RegExp(
        `The output of the run ${run_id} is a ${name} database; read it with the source ${name}`,
        'i',
      )
      for (const format of [undefined, 'csv', 'jsonl'])
        await assert.rejects(read({ run_id, ...(format && { format }) }, { [run_id]: output!.parts }), told)
    }
    const url = server.put('ducks.csv', 'a,b,c,d,DUCK\n1,2,3,4,5\n')
    assert.deepEqual(await read({ url }), ['{"a":1,"b":2,"c":3,"d":4,"DUCK":5}'])
  })

  it('may be an output that an older version stored plain', async () => {
    const run_id = '11111111-2222-4333-8444-555555555555'
    const key = 'o/runs/r/old-1.part'
    const bytes = Buffer.from(`${plainRows(500).join('\n')}\n`)
    await bench.blobs.put(key, bytes)
    assertSameRows(await read({ run_id }, { [run_id]: [{ key, size: bytes.length }] }), plainRows(500))
  })

  it('may be an output whose blob is damaged, which is never read as a shorter file', async () => {
    const { outcome } = await write(plainRows(500), {})
    const run_id = '11111111-2222-4333-8444-555555555555'
    const [part] = outcome.output!.parts
    const stored = await buffer(await bench.blobs.read(part!.key))
    stored[20]! ^= 0xff
    await bench.blobs.put(part!.key, stored)
    await assert.rejects(read({ run_id }, { [run_id]: [part!] }), /The output cannot be read: The stored part/)
    await bench.blobs.put('o/runs/r/old-2.part', Buffer.from('{"id":1}\n'))
    const cut = { key: 'o/runs/r/old-2.part', size: 18 }
    await assert.rejects(read({ run_id }, { [run_id]: [cut] }), /does not have the size that its run lists/)
  })

  it('must be exactly one, and must answer', async () => {
    await fails({}, 'config', /neither `url` nor `run_id` is given/)
    await fails(
      { url: server.url('x'), run_id: '11111111-2222-4333-8444-555555555555' },
      'config',
      /`url` and `run_id` are both given/,
    )
    await fails({ url: server.url('nowhere.csv') }, 'source', /404: there is no such file/)
    await fails({ url: 'file:///etc/passwd' }, 'config', /url/)
    await fails({ url: 'http://10.0.0.1/x.csv' }, 'config', /cannot be fetched/)
    await fails({ url: server.redirect('hop', 'http://169.254.169.254/latest') }, 'config', /cannot be fetched/)
  })

  it('may hold a damaged file', async () => {
    await fails(
      { url: server.put('cut.jsonl.gz', gzipSync(plainRows(5000).join('\n')).subarray(0, 2000)) },
      'source',
      /truncated/,
    )
    await fails({ url: server.put('odd.parquet', 'PAR1 no, not really') }, 'source', /could not be read/)
  })
})

it('reads the outputs of several runs one after the other, whatever their formats', async () => {
  const ids = [1, 2, 3].map((n) => `${n}1111111-2222-4333-8444-555555555555`)
  const rows = plainRows(30).map((row) => row.replace(/,"tags":\[.*\]/, ''))
  const outputs: Record<string, Job['outputs'][string]> = {}
  for (const [at, format] of ['parquet', 'csv', 'jsonl'].entries()) {
    const { outcome } = await write(rows.slice(at * 10, at * 10 + 10), { format })
    outputs[ids[at]!] = outcome.output!.parts
  }
  assert.deepEqual(
    (await read({ run_ids: ids }, outputs)).map((row) => JSON.parse(row).id),
    rows.map((row) => JSON.parse(row).id),
  )
  await fails({ run_ids: ids }, 'config', /The run 11111111-.* has no readable output/)
  await fails({ run_ids: ids, run_id: ids[0] }, 'config', /`run_id` and `run_ids` are both given/)
})

describe('several addresses', () => {
  it('are read one after the other, whatever their formats', async () => {
    const urls = [
      server.put('1.jsonl', '{"n":1}\n'),
      server.put('2.csv', 'n\n2\n3\n'),
      server.put('3.json', '[{"n":4}]'),
    ]
    assert.deepEqual(await read({ urls }), ['{"n":1}', '{"n":2}', '{"n":3}', '{"n":4}'])
    await fails({ urls: [urls[0], server.url('none')] }, 'source', /no such file/)
    await fails({ urls, url: urls[0] }, 'config', /`url` and `urls` are both given/)
  })

  it('are lists and ranges in braces, with the zeros as written', async () => {
    for (const year of [2024, 2025])
      for (const month of ['08', '09', '10']) server.put(`${year}-${month}.jsonl`, `{"at":"${year}-${month}"}\n`)
    const url = server.url('{2024,2025}-{08..10}.jsonl')
    assert.deepEqual(
      (await read({ url })).map((row) => JSON.parse(row).at),
      ['2024-08', '2024-09', '2024-10', '2025-08', '2025-09', '2025-10'],
    )
    const places = (config: Record<string, unknown>) =>
      fileSource.canonical!({ header: true, ...config } as never, 'rows')
    assert.deepEqual(places({ url: 'http://x/{a,b}' }), places({ urls: ['http://x/a', 'http://x/b#c'] }))
  })

  it('that are too many, or hide where they lead, are refused before anything is sent', async () => {
    for (const [url, message] of [
      ['http://x/{1..1001}', /more than 1000/],
      ['http://x/{1..100}{1..100}', /stands for 10000 addresses/],
      [`http://x/${'{a,b}'.repeat(200)}`, /more than 1000/],
      ['http://x/{000000001..999999999}', /more than 1000 numbers/],
      ['http://{a,b}.example.com/', /only allowed after the host/],
      ['http://user:hidden@{a,b}/', /only allowed after the host/],
      ['http://x/{5..1}', /ends before it begins/],
      ['http://x/{a}', /neither a list like \{a,b\} nor a range/],
      ['http://x/{a,{b,c}}', /no partner, or is inside others/],
      ['http://x/a}', /no partner/],
    ] as const) {
      await fails({ url }, 'config', message)
      await assert.rejects(read({ url }), (error: Error) => !error.message.includes('hidden'))
    }
    await fails({ urls: Array(2).fill('http://x/{1..600}') }, 'config', /stands for more than 1000 addresses/)
  })
})

it('reads an output that is kept as typed rows, every type in the notation of JSON', async () => {
  const columns: Column[] = [
    { name: 'id', type: 'int64' },
    { name: 'ok', type: 'boolean' },
    { name: 'n', type: 'decimal' },
    { name: 'f', type: 'float64' },
    { name: 't', type: 'text', native: { system: 'postgres', type: 'inet' } },
    { name: 'j', type: 'json' },
    { name: 'at', type: 'timestamptz' },
    { name: 'wall', type: 'timestamp' },
    { name: 'b', type: 'bytes' },
    { name: 'l', type: 'text[]' },
    { name: 'm', type: 'int32[]' },
  ]
  const rows = [
    '1\tt\t12345678901234567890.10\t1e-05\ttab\\there \\\\ "q"\t{"a":\\n1.50}\t2026-01-02 03:04:05.5+00\t2026-01-02 03:04:05\t\\\\x00ff\t{a,NULL,"b, \\\\"c","NULL"}\t[0:1]={{1,2},{3,NULL}}',
    ['2', 'f', 'NaN', '-Infinity', '', '[]', 'infinity', '0044-03-15 00:00:00 BC', '\\\\x', '{}', '{}'].join('\t'),
    ['3', ...Array<string>(10).fill('\\N')].join('\t'),
  ]
  const expected = [
    '{"id":1,"ok":true,"n":12345678901234567890.10,"f":1e-05,"t":"tab\\there \\\\ \\"q\\"","j":{"a": 1.50},"at":"2026-01-02T03:04:05.5+00:00","wall":"2026-01-02T03:04:05","b":"\\\\x00ff","l":["a",null,"b, \\"c","NULL"],"m":[[1,2],[3,null]]}',
    '{"id":2,"ok":false,"n":"NaN","f":"-Infinity","t":"","j":[],"at":"infinity","wall":"0044-03-15T00:00:00 BC","b":"\\\\x","l":[],"m":[]}',
    '{"id":3,"ok":null,"n":null,"f":null,"t":null,"j":null,"at":null,"wall":null,"b":null,"l":null,"m":null}',
  ]
  const run_id = '11111111-2222-4333-8444-555555555555'
  const typed = (text: string) => {
    const key = 'org/runs/typed.part'
    const source = { name: 'file', stream: 'rows', config: { run_id } }
    const outputs = { [run_id]: [{ key, size: Buffer.byteLength(text) }] }
    const job = bench.job({ source, destination: { name: 'file' } }, { outputs, output_columns: { [run_id]: columns } })
    return bench.blobs.put(key, Buffer.from(text)).then(() => bench.run(job))
  }
  const outcome = await typed(rows.map((row) => `${row}\n`).join(''))
  assert.deepEqual((await bench.readOutput(outcome)).toString().split('\n').slice(0, -1), expected)
  await assert.rejects(typed('1\tt\n'), /cannot be read: a row has 2 fields, not 11/)
})

describe('zstd', () => {
  const lines = (rows: string[]): string => rows.map((row) => `${row}\n`).join('')
  const skippable = Buffer.from([0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3])

  it('reads every frame of a file, whatever its name, and leaves out frames without content', async () => {
    const rows = plainRows(5000)
    const parts = [rows.slice(0, 1), rows.slice(1, 2000), [], rows.slice(2000)]
    const packed = Buffer.concat(parts.flatMap((part) => [zstdCompressSync(lines(part)), skippable]))
    assertSameRows(await read({ url: server.put('rows', packed) }), rows)
    assertSameRows(await read({ url: server.put('rows.jsonl.zst', packed) }), rows)
    const csv = zstdCompressSync('id,name\n1,one\n2,two\n')
    assertSameRows(await read({ url: server.put('rows.csv.zst', csv) }), [
      '{"id":1,"name":"one"}',
      '{"id":2,"name":"two"}',
    ])
  })

  it('notices a file that is cut off or followed by something else', async () => {
    const packed = zstdCompressSync(lines(plainRows(5000)))
    const two = Buffer.concat([packed, packed])
    for (const [name, bytes] of [
      ['cut.zst', packed.subarray(0, packed.length - 2)],
      ['cut-second.zst', two.subarray(0, two.length - 2000)],
      ['cut-header.zst', two.subarray(0, packed.length + 5)],
      ['followed.zst', Buffer.concat([packed, Buffer.from('and more')])],
    ] as const)
      await fails({ url: server.put(name, bytes), format: 'jsonl' }, 'source', /zstd.*damaged or truncated/)
  })
})
