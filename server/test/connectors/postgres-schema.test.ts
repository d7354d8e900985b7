import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import fc from 'fast-check'
import { plainRows } from '../harness/conformance.ts'
import { assertSameRows } from '../harness/ledger.ts'
import { openPostgresBench, type PostgresBench } from '../harness/postgres-bench.ts'

describe('tables that postgres loads shape', () => {
  let p: PostgresBench
  before(async () => {
    p = await openPostgresBench()
  })
  after(() => p?.close())

  const typesOf = async (table: string) =>
    Object.fromEntries(
      (
        await p.query<{ name: string; type: string }>(
          `SELECT attname AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute WHERE attrelid = '${table}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
        )
      ).map(({ name, type }) => [name, type]),
    )

  describe('schema', () => {
    it('is inferred without loss, stored, and its changes are reported', async () => {
      const first = p.load(
        'shaped',
        [
          '{"id":1,"big":12345678901234567890,"part":1.50,"on":true,"at":"2024-01-01T00:00:00Z","day":"2024-02-29","when":"2024-01-01T00:00:00","deep":{"a":[1]},"text":"x","never":null}',
        ],
        { write: 'append' },
      )
      const attempt = p.bench.start(first)
      await attempt.done
      const types = {
        id: 'bigint',
        big: 'numeric',
        part: 'numeric',
        on: 'boolean',
        at: 'timestamp with time zone',
        day: 'date',
        when: 'timestamp without time zone',
        deep: 'jsonb',
        text: 'text',
      }
      assert.deepEqual(await typesOf('shaped'), types)
      assert.deepEqual((await p.query('SELECT part::text FROM shaped'))[0], { part: '1.50' })
      assert.deepEqual(
        attempt.schemas[0]!.columns.map(({ name }) => name),
        Object.keys(types),
      )
      const second = p.bench.start({
        ...p.follow(first, ['{"id":2.5,"at":"soon","on":"maybe","day":{"y":1},"never":7,"new":false}']),
        schema: attempt.schemas[0]!.columns,
      })
      await second.done
      assert.deepEqual(await typesOf('shaped'), {
        ...types,
        id: 'numeric',
        at: 'text',
        on: 'text',
        day: 'jsonb',
        never: 'bigint',
        new: 'boolean',
      })
      assert.deepEqual(await p.query('SELECT id::text, at, "on", day FROM shaped ORDER BY id'), [
        { id: '1', at: '2024-01-01T00:00:00Z', on: 'true', day: '2024-02-29' },
        { id: '2.5', at: 'soon', on: 'maybe', day: { y: 1 } },
      ])
      const said = second.schemas.flatMap(({ changes }) => changes)
      assert.ok(
        said.includes('widened column id from int8 to numeric') && said.includes('added column new boolean'),
        said.join(),
      )
      assert.ok(second.log.some((line) => line.includes('widened column id from int8 to numeric')))
    })

    it('of an existing table is respected: defaults apply, strings are parsed by its types', async () => {
      await p.query(
        "CREATE TABLE theirs (key serial PRIMARY KEY, u uuid, at timestamptz, n int4, v varchar(3), made timestamptz DEFAULT '2000-01-01', e jsonb)",
      )
      await p.bench.run(
        p.load(
          'theirs',
          ['{"u":"9f0c3d2e-0000-4000-8000-000000000000","at":"2024-01-01 10:00:00+02","n":"12","v":"abc","e":"text"}'],
          { write: 'append' },
        ),
      )
      assert.deepEqual(await p.query('SELECT key, u, at::text, n, v, made::text, e FROM theirs'), [
        {
          key: 1,
          u: '9f0c3d2e-0000-4000-8000-000000000000',
          at: '2024-01-01 08:00:00+00',
          n: 12,
          v: 'abc',
          made: '2000-01-01 00:00:00+00',
          e: 'text',
        },
      ])
      await p.bench.run(p.load('theirs', ['{"n":3000000000}'], { write: 'append' }))
      assert.equal((await typesOf('theirs')).n, 'bigint')
      await assert.rejects(
        p.bench.run(p.load('theirs', ['{"v":"too long"}'], { write: 'append' })),
        /too long.*column v|column v/s,
      )
      await assert.rejects(p.bench.run(p.load('theirs', ['{"u":"no uuid"}'], { write: 'append' })), /uuid/)
    })

    it('with discard drops new fields and values that do not fit, and counts them', async () => {
      const first = p.load('discards', ['{"id":1,"n":1}'], { write: 'append' })
      await p.bench.run(first)
      const attempt = p.bench.start(
        p.follow(first, ['{"id":2,"n":"x","more":1}', '{"id":3,"n":3}'], { schema_change: 'discard' }),
      )
      await attempt.done
      assert.deepEqual(await p.query('SELECT id::int4, n::int4 FROM discards ORDER BY id'), [
        { id: 1, n: 1 },
        { id: 2, n: null },
        { id: 3, n: 3 },
      ])
      assert.ok(
        attempt.log.some((line) => /1 values did not fit/.test(line)) &&
          attempt.log.some((line) => /discarded: more/.test(line)),
      )
    })

    it('with discard leaves out columns of a table that is copied unchanged', async () => {
      await p.query(
        "CREATE TABLE wide (a int, b text, c int); INSERT INTO wide VALUES (1, E'tab\\there', 3), (2, NULL, 4); CREATE TABLE narrow (a int, c int)",
      )
      const into = { name: 'postgres', config: { ...p.config, table: 'narrow' } }
      const from = { name: 'postgres', stream: 'public.wide', config: p.config }
      await p.bench.run(
        p.bench.job({ source: from, destination: into, sync: { write: 'append', schema_change: 'discard' } }),
      )
      assert.deepEqual(await p.query('SELECT a, c FROM narrow ORDER BY a'), [
        { a: 1, c: 3 },
        { a: 2, c: 4 },
      ])
      await assert.rejects(
        p.bench.run(p.bench.job({ source: from, destination: into, sync: { write: 'append', schema_change: 'fail' } })),
        /the field b is new/,
      )
      await p.bench.run(p.bench.job({ source: from, destination: into, sync: { write: 'append' } }))
      assert.deepEqual(Object.keys(await typesOf('narrow')), ['a', 'c', 'b'])
    })

    it('with fail ends the run when values no longer fit, and changes nothing', async () => {
      const first = p.load('fails', ['{"id":1}'], { write: 'append' })
      await p.bench.run(first)
      await assert.rejects(
        p.bench.run(p.follow(first, ['{"id":"x"}'], { schema_change: 'fail' })),
        /values of id no longer fit int8/,
      )
      assert.deepEqual(await typesOf('fails'), { id: 'bigint' })
    })

    it('gives long and unusual field names columns that the next run finds again', async () => {
      const long = 'k'.repeat(80)
      const line = JSON.stringify({ [`${long}1`]: 1, [`${long}2`]: 2, 'a"b.c': 3, Case: 4, case: 5, '': 6 })
      const first = p.load('named', [line], { write: 'append' })
      await p.bench.run(first)
      await p.bench.run(p.follow(first, [line]))
      const names = Object.keys(await typesOf('named'))
      assert.equal(names.length, 6)
      assert.ok(names.every((name) => Buffer.byteLength(name) <= 63))
      assert.equal((await p.query('SELECT * FROM named')).length, 2)
      const [counts] = await p.query(
        `SELECT ${names.map((name, at) => `count("${name.replaceAll('"', '""')}")::int4 AS c${at}`).join(', ')} FROM named`,
      )
      assert.deepEqual(Object.values(counts!), [2, 2, 2, 2, 2, 2])
    })
  })

  describe('a type that the source changes', () => {
    const cases: [was: string, before: string, is: string, after: string, becomes: string, kept: string[]][] = [
      [
        'date',
        "'2024-01-01'",
        'timestamp',
        "'2024-01-02 10:11:12'",
        'timestamp without time zone',
        ['2024-01-01 00:00:00', '2024-01-02 10:11:12'],
      ],
      [
        'float8',
        "'0.30000000000000004'",
        'numeric',
        '0.1234567890123456789',
        'numeric',
        ['0.30000000000000004', '0.1234567890123456789'],
      ],
      [
        'timestamp(0)',
        "'2024-01-01 10:00:00'",
        'timestamp',
        "'2024-01-01 10:00:00.75'",
        'timestamp without time zone',
        ['2024-01-01 10:00:00', '2024-01-01 10:00:00.75'],
      ],
      ['time', "'10:00:00'", 'timetz', "'10:00:00+05'", 'text', ['10:00:00', '10:00:00+05']],
      ['int4', '7', 'text', "'seven'", 'text', ['7', 'seven']],
      [
        'timestamp',
        "'2024-01-01 10:00:00'",
        'timestamptz',
        "'2024-01-01 10:00:00+05'",
        'text',
        ['2024-01-01T10:00:00', '2024-01-01 05:00:00+00'],
      ],
      ['numeric(6,2)', '1.25', 'numeric(8,4)', '2.0625', 'numeric(8,4)', ['1.2500', '2.0625']],
      ['int8', '9007199254740993', 'float8', "'0.5'", 'numeric', ['9007199254740993', '0.5']],
    ]
    let made = 0
    async function begin(was: string, before: string, is: string, after: string) {
      made += 1
      const table = `changing_${made}`
      await p.query(`CREATE TABLE ${table}_from (id int4, v ${was}); INSERT INTO ${table}_from VALUES (1, ${before})`)
      const source = { name: 'postgres', stream: `public.${table}_from`, config: p.config }
      const first = p.bench.job({
        source,
        destination: { name: 'postgres', config: { ...p.config, table } },
        sync: { write: 'append' },
      })
      await p.bench.run(first)
      await p.query(
        `ALTER TABLE ${table}_from ALTER v TYPE ${is} USING NULL; TRUNCATE ${table}_from; INSERT INTO ${table}_from VALUES (2, ${after})`,
      )
      return { table, next: p.bench.next(first, null) }
    }

    for (const [was, before, is, after, becomes, kept] of cases)
      it(`from ${was} to ${is} makes the column ${becomes}, and nothing is lost`, async () => {
        const { table, next } = await begin(was, before, is, after)
        const attempt = p.bench.start(next)
        await attempt.done
        assert.equal((await typesOf(table)).v, becomes)
        const rows = await p.query<{ v: string }>(`SELECT v::text FROM ${table} ORDER BY id`)
        assert.deepEqual(
          rows.map(({ v }) => v),
          kept,
        )
        assert.ok(attempt.schemas.flatMap(({ changes }) => changes).some((change) => /^widened column v /.test(change)))
      })

    it('from uuid or json to text keeps the column while its texts fit, and makes it text when one does not', async () => {
      const key = '9F0C3D2E-0000-4000-8000-000000000000'
      for (const [was, before, fitting, other] of [
        ['uuid', key, key, 'no uuid'],
        ['jsonb', '{"a":1}', '[1,2]', 'plain'],
      ] as const) {
        const { table, next } = await begin(was, `'${before}'`, 'text', `'${fitting}'`)
        await p.bench.run(next)
        assert.equal((await typesOf(table)).v, was)
        await p.query(`INSERT INTO ${table}_from VALUES (3, '${other}'), (4, NULL)`)
        const strict = p.bench.next(next, null, { sync: { ...next.sync, schema_change: 'fail' } })
        await assert.rejects(p.bench.run(strict), /values of v no longer fit/)
        for (const write of ['append', 'replace'] as const)
          await p.bench.run(p.bench.next(next, null, { sync: { ...next.sync, write } }))
        assert.equal((await typesOf(table)).v, 'text')
        const rows = await p.query<{ v: string }>(`SELECT v FROM ${table} WHERE id > 1 ORDER BY id`)
        assert.deepEqual(
          rows.map(({ v }) => v),
          [fitting, other, null],
        )
      }
    })

    it('is refused if the pipeline says fail, whatever it is', async () => {
      for (const [was, before, is, after] of cases) {
        const { table, next } = await begin(was, before, is, after)
        const strict = { ...next, sync: { ...next.sync, schema_change: 'fail' as const } }
        await assert.rejects(p.bench.run(strict), /values of v no longer fit/, `${was} ← ${is}`)
        assert.equal((await p.query(`SELECT FROM ${table}`)).length, 1)
      }
    })

    it('leaves its column out if the pipeline says discard', async () => {
      const { table, next } = await begin('date', "'2024-01-01'", 'timestamp', "'2024-01-02 10:11:12'")
      const attempt = p.bench.start({ ...next, sync: { ...next.sync, schema_change: 'discard' } })
      await attempt.done
      assert.deepEqual(await p.query(`SELECT id, v::text FROM ${table} ORDER BY id`), [
        { id: 1, v: '2024-01-01' },
        { id: 2, v: null },
      ])
      assert.ok(attempt.log.some((line) => /discarded: v/.test(line)))
    })
  })

  describe('a time', () => {
    let tables = 0
    const zoned = '{"at":"2024-01-01T10:00:00+05:00"}'
    const plain = '{"at":"2024-01-01T10:00:00"}'
    const loose = '{"at":"2024-01-01 10:00"}'
    for (const [name, rows] of Object.entries({
      'with a zone after one without': [plain, zoned],
      'without a zone after one with': [zoned, plain],
      'as SQL writes it, without a zone, after one with': [zoned, loose],
    }))
      for (const pageRecords of [1, 2])
        it(`${name} makes the column text, ${pageRecords} to a page`, async () => {
          const table = `zones_${++tables}`
          await p.bench.run(p.load(table, rows, { write: 'append' }, { pageRecords }))
          assert.equal((await typesOf(table)).at, 'text')
          const found = await p.query<{ at: string }>(`SELECT at FROM ${table}`)
          const written = rows.map((row) => JSON.parse(row).at as string).sort()
          // What was loaded as an instant before the column was text is written in UTC.
          const expected = [
            written,
            written.map((text) => (text.endsWith('+05:00') ? '2024-01-01T05:00:00Z' : text)).sort(),
          ]
          assert.ok(
            expected.some((texts) => JSON.stringify(texts) === JSON.stringify(found.map(({ at }) => at).sort())),
            JSON.stringify(found),
          )
        })

    it('in an existing table is never shifted by a zone, nor rounded', async () => {
      await p.query(
        'CREATE TABLE clocks (a timestamp, b timestamptz, c timestamp(0), d time(0), e numeric(6,2), f float8)',
      )
      await p.bench.run(
        p.load(
          'clocks',
          [
            '{"a":"2024-01-01 10:00:00+05","b":"2024-01-01 10:00:00","c":"2024-01-01T10:00:00.75","d":"10:00:00.75","e":1.239,"f":0.1234567890123456789}',
            '{"a":"2024-01-02T00:00:00","b":"2024-01-01T10:00:00Z","c":"2024-01-01T10:00:00","d":"10:00:00","e":1.2,"f":0.1}',
          ],
          { write: 'append' },
        ),
      )
      assert.deepEqual(await p.query('SELECT a, b, c::text, d::text, e::text, f::text FROM clocks ORDER BY f'), [
        {
          a: '2024-01-02T00:00:00',
          b: '2024-01-01T10:00:00Z',
          c: '2024-01-01 10:00:00',
          d: '10:00:00',
          e: '1.2',
          f: '0.1',
        },
        {
          a: '2024-01-01 10:00:00+05',
          b: '2024-01-01 10:00:00',
          c: '2024-01-01 10:00:00.75',
          d: '10:00:00.75',
          e: '1.239',
          f: '0.1234567890123456789',
        },
      ])
    })
  })

  it('hold random records without losing a digit or a character', async () => {
    const text = fc.string({ unit: 'binary', maxLength: 40 }).map((value) => JSON.stringify(value.replaceAll('\0', '')))
    const digits = fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }).map(String)
    const decimal = fc
      .tuple(digits, fc.nat({ max: 999999999 }))
      .map(([whole, part]) => `${whole}.${String(part).padStart(12, '0')}`)
    const time = fc
      .date({ min: new Date('0001-01-02T00:00:00Z'), max: new Date('9999-12-30T00:00:00Z'), noInvalidDate: true })
      .map((value) => JSON.stringify(value.toISOString()))
    const nested = fc
      .object({ maxDepth: 3, values: [fc.string(), fc.integer(), fc.boolean(), fc.constant(null)] })
      .map((value) => JSON.stringify(value).replaceAll('\\u0000', ''))
    const maybe = (arbitrary: fc.Arbitrary<string>) => fc.option(arbitrary, { nil: 'null' })
    const record = fc
      .tuple(maybe(text), maybe(digits), maybe(decimal), maybe(fc.boolean().map(String)), maybe(time), maybe(nested))
      .map(([t, i, d, b, at, n]) => `{"t":${t},"i":${i},"d":${d},"b":${b},"at":${at},"n":${n}}`)
    const rows = fc.sample(record, { seed: 7, numRuns: 150 })
    await p.bench.run(p.load('random', rows, { write: 'replace' }, { pageRecords: 30 }))
    const loaded = await p.query<{ row: string }>('SELECT row_to_json(whole)::text AS row FROM random AS whole')
    assertSameRows(
      loaded.map(({ row }) => row),
      rows,
    )
  })

  describe('upsert', () => {
    it('reports what is wrong with a key', async () => {
      await assert.rejects(p.bench.run(p.load('keyless', plainRows(3), { write: 'upsert' })), /primary_key/)
      await assert.rejects(
        p.bench.run(p.load('keyless', plainRows(3), { write: 'upsert', primary_key: ['nope'] })),
        /nope/,
      )
      await assert.rejects(
        p.bench.run(
          p.load('keyless', ['{"id":null,"a":1}', '{"id":1,"a":1}'], { write: 'upsert', primary_key: ['id'] }),
        ),
        /no value in the primary key/,
      )
      await p.query('CREATE TABLE doubled (id int8, name text); INSERT INTO doubled VALUES (1), (1)')
      await assert.rejects(
        p.bench.run(p.load('doubled', plainRows(3), { write: 'upsert', primary_key: ['id'] })),
        /several rows with one value/,
      )
    })

    it('merges by several columns into a table without an index', async () => {
      await p.query(
        "CREATE TABLE composed (a int, b text, n int); INSERT INTO composed VALUES (1, 'x', 0), (2, 'x', 0)",
      )
      await p.bench.run(
        p.load('composed', ['{"a":1,"b":"x","n":5}', '{"a":1,"b":"y","n":6}'], {
          write: 'upsert',
          primary_key: ['a', 'b'],
        }),
      )
      assert.deepEqual(await p.query('SELECT a, b, n FROM composed ORDER BY a, b'), [
        { a: 1, b: 'x', n: 5 },
        { a: 1, b: 'y', n: 6 },
        { a: 2, b: 'x', n: 0 },
      ])
    })
  })
})
