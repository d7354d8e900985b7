/** Names and server settings that change how SQL is read: whatever they are, the same rows arrive. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Sync } from '../../src/connectors/contract.ts'
import { mysqlSource } from '../../src/connectors/mysql/source/source.ts'
import type { Job } from '../../src/engine/execute.ts'
import { lineSource } from '../harness/line-source.ts'
import { findAbsence, type MariadbServer, startServer } from '../harness/mariadb-server.ts'
import { readJsonRows } from '../harness/mysql-rows.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'
import { sourceContext } from '../harness/source-context.ts'

const absence = findAbsence()
if (absence !== null) console.log(`names in mysql are not tested: ${absence}`)

const modes = ['append', 'replace', 'upsert'] as const

/** A server of one's own, with what the tests below do on it. */
async function openPlace(settings: Record<string, string>) {
  const server: MariadbServer = await startServer(settings)
  const bench: RunBench = await openRunBench()
  const database = await server.createDatabase()
  const { host, port, user, password } = server
  const config = { host, port, user, password, database, tls: { mode: 'disable' } }
  return {
    bench,
    server,
    database,
    config,
    sql: (text: string) => server.sql(text, database),
    rows: async (table: string) =>
      (await readJsonRows(server, database, table)).map((row) => JSON.parse(row) as Record<string, unknown>),
    load: (table: string, lines: readonly string[], sync: Partial<Sync>, extra: object = {}): Job =>
      bench.job({
        source: lineSource(lines),
        destination: { name: 'mysql', config: { ...config, table, ...extra } },
        sync,
      }),
    copy: (stream: string, table: string, sync: Partial<Sync>): Job =>
      bench.job({
        source: { name: 'mysql', stream, config },
        destination: { name: 'mysql', config: { ...config, table } },
        sync,
      }),
    async close() {
      await bench.close()
      await server.stop()
    },
  }
}
type Place = Awaited<ReturnType<typeof openPlace>>

describe('a MySQL server with settings of its own', { skip: absence !== null }, () => {
  let p: Place
  before(async () => {
    if (absence !== null) return
    p = await openPlace({
      default_time_zone: '+05:30',
      character_set_server: 'latin1',
      collation_server: 'latin1_swedish_ci',
      transaction_isolation: 'SERIALIZABLE',
      autocommit: '0',
      explicit_defaults_for_timestamp: 'OFF',
    })
  })
  after(() => p?.close())

  const value = `it's \\ "quoted" \`ticked\` %_ \t \n \0 é €`

  for (const mode of ['ANSI_QUOTES,NO_BACKSLASH_ESCAPES', 'ORACLE', 'TRADITIONAL,PIPES_AS_CONCAT', ''])
    it(`such as sql_mode ${mode || "''"} gives and takes the same values`, async () => {
      for (const write of modes) {
        await p.server.sql(`DROP TABLE IF EXISTS odd, copied; SET GLOBAL sql_mode = '${mode}'`, p.database)
        const lines = [
          JSON.stringify({ id: 1, t: value, at: '2024-06-01T12:00:00Z', empty: '', n: 0 }),
          JSON.stringify({ id: 2, t: null, at: null, empty: null, n: null }),
        ]
        const sync = { write, primary_key: write === 'upsert' ? ['id'] : [] }
        await p.bench.run(p.load('odd', lines, sync))
        await p.bench.run(p.copy('odd', 'copied', sync))
        await p.server.sql("SET GLOBAL sql_mode = ''")
        const expected = [
          { id: 1, t: value.replace('\0', '\ufffd'), at: '2024-06-01T12:00:00.000000Z', empty: '', n: 0 },
          { id: 2, t: null, at: null, empty: null, n: null },
        ]
        assert.deepEqual(await p.rows('odd'), expected)
        assert.deepEqual(await p.rows('copied'), expected)
      }
    })

  it('reads a TIMESTAMP as the instant it is', async () => {
    await p.sql(
      "SET time_zone = '+05:30'; CREATE TABLE zoned (at timestamp); INSERT INTO zoned VALUES ('2024-06-01 12:00:00'); COMMIT",
    )
    const outcome = await p.bench.run(
      p.bench.job({ source: { name: 'mysql', stream: 'zoned', config: p.config }, destination: { name: 'file' } }),
    )
    assert.match((await p.bench.readOutput(outcome)).toString(), /^\{"at":"2024-06-01T06:30:00\+00:00"\}\n$/)
  })
})

describe('names in MySQL that need quotes', { skip: absence !== null }, () => {
  let p: Place
  before(async () => {
    if (absence === null) p = await openPlace({})
  })
  after(() => p?.close())

  const names = ['select', 'a`b "c" \'d\'', 'dots.and spaces', "it's \\ 100%_", 'größe', 'x'.repeat(64)]

  it('of tables and columns are kept as they are, in every mode', async () => {
    const record = Object.fromEntries(names.map((name, at) => [name, at]))
    for (const [at, name] of names.entries()) {
      const write = modes[at % modes.length]!
      const sync = { write, primary_key: write === 'upsert' ? [names[1]!] : [] }
      await p.bench.run(p.load(name, [JSON.stringify(record)], sync))
      await p.bench.run(p.load(name, [JSON.stringify({ ...record, more: 1 })], { ...sync, write: 'replace' }))
      const quoted = `\`${name.replaceAll('`', '``')}\``
      assert.deepEqual(await p.sql(`SELECT * FROM ${quoted}`), [[...names.keys(), 1].join('\t')])
      const stream = /[."]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name
      const listed = await mysqlSource.listStreams(sourceContext(p.bench, mysqlSource, { config: p.config }))
      assert.ok(listed.includes(stream), `${stream} in ${listed.join(', ')}`)
      await p.bench.run(p.copy(stream, 'copied', { ...sync, mode: 'incremental', cursor_field: name, write: 'append' }))
      assert.deepEqual(await p.sql('SELECT * FROM copied'), [[...names.keys(), 1].join('\t')])
      await p.sql(`DROP TABLE ${quoted}, copied`)
    }
  })

  it('are not confused with others that differ in case or accents only', async () => {
    await p.sql(
      'CREATE TABLE Orders (a int, doc json); CREATE TABLE `örders` (c varchar(10) NOT NULL); CREATE TABLE orders (b int, doc text)',
    )
    await p.bench.run(p.load('orders', ['{"b":1,"doc":"not json","a":2,"c":3}'], { write: 'append' }))
    assert.deepEqual(await p.rows('orders'), [{ b: 1, doc: 'not json', a: 2, c: 3 }])
    const outcome = await p.bench.run(
      p.bench.job({ source: { name: 'mysql', stream: 'orders', config: p.config }, destination: { name: 'file' } }),
    )
    assert.equal((await p.bench.readOutput(outcome)).toString(), '{"b":1,"doc":"not json","a":2,"c":3}\n')
  })

  it('are made of keys that MySQL refuses', async () => {
    await p.bench.run(p.load('keys', ['{"a ":1,"😀":2,"":3,"Id":4,"id":5,"é":6,"e":7,"É":8}'], { write: 'append' }))
    const [row] = await p.rows('keys')
    assert.deepEqual(Object.values(row!), [1, 2, 3, 4, 5, 6, 7, 8])
    assert.deepEqual(Object.keys(row!).slice(0, 5), ['a_', '_', '__2', 'Id', 'id_2'])
  })
})

describe('a MySQL server that folds names to lower case', { skip: absence !== null }, () => {
  let p: Place
  before(async () => {
    if (absence === null) p = await openPlace({ lower_case_table_names: '1' })
  })
  after(() => p?.close())

  it('finds its tables again, however they are written', async () => {
    for (const write of modes) {
      const sync = { write, primary_key: write === 'upsert' ? ['id'] : [] }
      const first = p.load('Big_Orders', ['{"id":1,"t":"a"}'], sync)
      const outcome = await p.bench.run(first)
      const second = p.bench.job({
        source: lineSource(['{"id":1,"t":"b"}', '{"id":2,"t":"c"}']),
        destination: first.destination,
        sync,
      })
      await p.bench.run({ ...p.bench.next(first, outcome), source: second.source })
      assert.equal((await p.rows('big_orders')).length, write === 'append' ? 3 : 2, write)
      const read = await p.bench.run(
        p.bench.job({
          source: { name: 'mysql', stream: 'BIG_orders', config: p.config },
          destination: { name: 'file' },
        }),
      )
      assert.equal(read.records_read, write === 'append' ? 3 : 2)
      await p.sql('DROP TABLE big_orders')
      assert.deepEqual(await p.sql("SHOW TABLES LIKE '\\_sluice\\_s%'"), [])
    }
  })
})
