/** Tables that already exist, with columns that the server fills, and records with almost nothing in them. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Sync } from '../../src/connectors/contract.ts'
import { openPostgresBench, type PostgresBench } from '../harness/postgres-bench.ts'

let p: PostgresBench
before(async () => {
  p = await openPostgresBench()
})
after(() => p?.close())

const modes: [name: string, sync: Partial<Sync>, resumable: boolean][] = [
  ['append', { write: 'append' }, true],
  ['append, aside', { write: 'append' }, false],
  ['upsert', { write: 'upsert', primary_key: ['id'] }, true],
  ['upsert, aside', { write: 'upsert', primary_key: ['id'] }, false],
  ['replace', { write: 'replace' }, true],
]

describe('a table with GENERATED ALWAYS AS IDENTITY', () => {
  for (const [at, [name, sync, resumable]] of modes.entries())
    it(`takes the values that the records have: ${name}`, async () => {
      const table = `identity_${at}`
      await p.query(`CREATE TABLE ${table} (id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text)`)
      const first = p.load(table, ['{"id":7,"name":"a"}', '{"id":9,"name":"b"}'], sync, { resumable })
      await p.bench.run(first)
      const more = ['{"id":9,"name":"B"}', '{"id":11,"name":"c"}']
      if (sync.write !== 'append') await p.bench.run(p.follow(first, more, {}, { resumable }))
      const rows = await p.query<{ id: string; name: string }>(`SELECT id::text, name FROM ${table} AS t ORDER BY t.id`)
      const expected = {
        append: ['7a', '9b'],
        upsert: ['7a', '9B', '11c'],
        replace: ['9B', '11c'],
      }[sync.write!]
      assert.deepEqual(
        rows.map((row) => row.id + row.name),
        expected,
      )
    })

  it('generates values if the records have none, and keeps them for existing rows', async () => {
    await p.query('CREATE TABLE numbered (n int8 GENERATED ALWAYS AS IDENTITY, id int8 PRIMARY KEY, name text)')
    const first = p.load('numbered', ['{"id":1,"name":"a"}'], { write: 'upsert', primary_key: ['id'] })
    await p.bench.run(first)
    await p.bench.run(p.follow(first, ['{"id":1,"name":"b","n":99}', '{"id":2,"name":"c","n":50}']))
    assert.deepEqual(await p.query('SELECT n::int4, id::int4, name FROM numbered ORDER BY id'), [
      { n: 1, id: 1, name: 'b' },
      { n: 50, id: 2, name: 'c' },
    ])
  })

  it('is replaced by key if other tables reference it', async () => {
    await p.query(`CREATE TABLE referred (id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text);
      INSERT INTO referred (name) VALUES ('old'); CREATE TABLE refers (r int8 REFERENCES referred); INSERT INTO refers VALUES (1)`)
    await p.bench.run(p.load('referred', ['{"id":1,"name":"new"}', '{"id":2,"name":"more"}'], { write: 'replace' }))
    assert.deepEqual(await p.query('SELECT id::int4, name FROM referred ORDER BY id'), [
      { id: 1, name: 'new' },
      { id: 2, name: 'more' },
    ])
  })
})

describe('a generated column', () => {
  for (const [at, [name, sync, resumable]] of modes.entries())
    it(`is left alone, whatever the records say: ${name}`, async () => {
      const table = `computed_${at}`
      await p.query(`CREATE TABLE ${table} (id int8 PRIMARY KEY, twice int8 GENERATED ALWAYS AS (id * 2) STORED)`)
      const attempt = p.bench.start(p.load(table, ['{"id":3,"twice":999}'], sync, { resumable }))
      await attempt.done
      assert.deepEqual(await p.query(`SELECT id::int4, twice::int4 FROM ${table}`), [{ id: 3, twice: 6 }])
      assert.ok(attempt.log.some((line) => /generates were left alone: twice/.test(line)))
    })

  it('is left alone if the rows are typed, also with fail', async () => {
    await p.query(`CREATE TABLE pairs (id int8, twice int8); INSERT INTO pairs VALUES (4, 999);
      CREATE TABLE pairs_to (id int8, twice int8 GENERATED ALWAYS AS (id * 2) STORED)`)
    const source = { name: 'postgres', stream: 'public.pairs', config: p.config }
    const destination = { name: 'postgres', config: { ...p.config, table: 'pairs_to' } }
    await p.bench.run(p.bench.job({ source, destination, sync: { write: 'append', schema_change: 'fail' } }))
    assert.deepEqual(await p.query('SELECT id::int4, twice::int4 FROM pairs_to'), [{ id: 4, twice: 8 }])
  })
})

it('a replaced table has its statistics before it becomes visible', async () => {
  const rows = Array.from({ length: 3000 }, (_, at) => `{"id":${at},"kind":"k${at % 3}"}`)
  const first = p.load('analysed', rows, { write: 'replace' })
  for (const job of [first, p.follow(first, rows)]) {
    await p.bench.run(job)
    const [found] = await p.query(
      `SELECT reltuples::int4 AS tuples, (SELECT n_distinct FROM pg_stats WHERE tablename = 'analysed' AND attname = 'kind') AS kinds FROM pg_class WHERE oid = 'analysed'::regclass`,
    )
    assert.deepEqual(found, { tuples: 3000, kinds: 3 })
  }
})

describe('records with nothing in them', () => {
  for (const [at, [name, sync, resumable]] of modes.entries()) {
    if (sync.write === 'upsert') continue
    it(`are still rows, and get their columns when a value comes: ${name}`, async () => {
      const table = `hollow_${at}`
      const rows = ['{}', '{"a":null}', '{}', '{"a":5,"b":"x"}', '{"b":null}']
      await p.bench.run(p.load(table, rows, sync, { resumable, pageRecords: 1 }), { checkpointRecords: 2 })
      assert.deepEqual(await p.query(`SELECT a::int4, b FROM ${table} ORDER BY a`), [
        { a: 5, b: 'x' },
        ...Array.from({ length: 4 }, () => ({ a: null, b: null })),
      ])
    })

    it(`cause a warning if there is nothing else: ${name}`, async () => {
      const table = `empty_${at}`
      const first = p.load(table, ['{}', '{"a":null}'], sync, { resumable })
      const attempt = p.bench.start(first)
      await attempt.done
      assert.equal((await p.query(`SELECT FROM ${table}`)).length, 2)
      assert.ok(attempt.log.some((line) => /No record had a field with a value/.test(line)))
      await p.bench.run(p.follow(first, ['{"a":1}'], {}, { resumable }))
      assert.equal((await p.query(`SELECT a FROM ${table} WHERE a = 1`)).length, 1)
    })
  }

  it('have no key to be merged by, which is a clear error', async () => {
    for (const resumable of [true, false]) {
      const job = p.load('keyless', ['{}', '{"id":null}'], { write: 'upsert', primary_key: ['id'] }, { resumable })
      await assert.rejects(p.bench.run(job), /primary_key names id, which the records do not have/)
    }
  })

  it('use the defaults of an existing table', async () => {
    await p.query("CREATE TABLE defaults (id serial, note text DEFAULT 'none')")
    await p.bench.run(p.load('defaults', ['{}', '{}'], { write: 'append' }))
    assert.deepEqual(await p.query('SELECT id, note FROM defaults ORDER BY id'), [
      { id: 1, note: 'none' },
      { id: 2, note: 'none' },
    ])
  })
})
