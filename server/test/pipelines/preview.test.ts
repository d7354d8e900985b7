/** A pipeline is tried without loading: its records, the target's columns, what would change, what would go wrong. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type pg from 'pg'
import { sql } from '../../src/database/database.ts'
import { registerPerson, startApp } from '../harness/app.ts'
import { findAbsence, startMariadbServer, stopMariadbServer } from '../harness/mariadb-server.ts'
import { startPostgresServer, stopPostgresServer } from '../harness/postgres-server.ts'
import { sourceCode } from '../tenancy/things.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.0/8' })
const person = await registerPerson(app, 'Previewer')
const preview = (config: object, more: object = {}, as = person) =>
  app.call('POST', '/api/pipelines/preview', { as, body: { config, ...more } })
const dummy = (config: object = {}) => ({ name: 'dummy', stream: 'creatures', config })
const file = { name: 'file', config: {} }

const server = await startPostgresServer()
const database = await server.createDatabase()
let client: pg.Client
before(async () => {
  client = await server.connect(database)
})
after(async () => {
  await stopPostgresServer()
  await stopMariadbServer()
})
const { host, port, user, password } = server
const place = { host, port, user, password, database, tls: { mode: 'disable' } }
const warehouse = (table: string, more: object = {}) => ({ name: 'postgres', config: { ...place, table, ...more } })

/** Every relation, column and index that a person made. */
const catalog = async () =>
  (
    await client.query(`
      SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_namespace n
        LEFT JOIN pg_class c ON c.relnamespace = n.oid LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
       WHERE n.nspname NOT LIKE 'pg_%' AND n.nspname <> 'information_schema' ORDER BY 1, 2, 3`)
  ).rows

describe('a preview', () => {
  it('shows the first records after the choice of columns, with the columns of the target', async () => {
    const columns = { include: ['_record_id', 'name'], rename: { name: 'title' } }
    const { status, body, text } = await preview({ source: dummy(), destination: file, columns }, { max_records: 3 })
    assert.equal(status, 200, text)
    assert.deepEqual(Object.keys(body).sort(), ['changes', 'columns', 'error', 'problems', 'records', 'success'])
    assert.equal(body.records.length, 3)
    assert.deepEqual(Object.keys(body.records[0]), ['_record_id', 'title'])
    assert.deepEqual(body.columns, [
      { name: '_record_id', type: 'text', native_type: null },
      { name: 'title', type: 'text', native_type: null },
    ])
    assert.deepEqual([body.success, body.changes, body.problems, body.error], [true, [], [], null])
  })

  it('reads ten records unless told otherwise, and at most a thousand', async () => {
    assert.equal((await preview({ source: dummy({ records: 50 }), destination: file })).body.records.length, 10)
    for (const max_records of [0, 1001, '5'])
      assert.equal((await preview({ source: dummy(), destination: file }, { max_records })).status, 400)
  })

  it('runs a custom source, saved connectors included, and stops it after the last record', async () => {
    const endless = sourceCode.replace(
      'yield SourceRecord(id="1", data={"n": 1})',
      'n = 9007199254740993\n        while True:\n            yield SourceRecord(id=str(n), data={"n": n, "x": 0.10})\n            n += 1',
    )
    const made = await app.call('POST', '/api/custom-sources', {
      as: person,
      body: { name: 'Numbers', source_name: 'numbers', code: endless },
    })
    assert.equal(made.status, 201, made.text)
    const saved = await app.call('POST', '/api/saved/destinations', {
      as: person,
      body: { name: 'Warehouse', connector_name: 'postgres', config: { ...place, table: 'numbers' } },
    })
    const { body, text } = await preview(
      { source: { name: 'numbers', stream: 'numbers' }, destination: { saved_connector_id: saved.body.id } },
      { max_records: 2 },
    )
    assert.equal(body.success, true, text)
    assert.match(text, /"records":\[\{"_record_id":"9007199254740993","n":9007199254740993,"x":0\.1\},/)
    assert.deepEqual(body.changes, ['creates table public.numbers'])
    assert.deepEqual(
      body.columns.map(({ name, native_type }: { name: string; native_type: string }) => [name, native_type]),
      [
        ['_record_id', 'text'],
        ['n', 'int8'],
        ['x', 'numeric'],
      ],
    )
  })

  it('says why a source cannot be read, without its secrets', async () => {
    const source = { name: 'postgres', stream: 'public.missing', config: { ...place, password: 'hunter2hunter2' } }
    const { status, body, text } = await preview({ source, destination: file })
    assert.equal(status, 200)
    assert.deepEqual([body.success, body.records], [false, []])
    assert.match(body.error, /password/i)
    assert.doesNotMatch(text, /hunter2/)
  })

  it('refuses a config as creating it would, with the path', async () => {
    const { status, body } = await preview({ source: { ...dummy(), stream: 'nothing' }, destination: file })
    assert.equal(status, 400)
    assert.match(body.detail, /^config\.source\.stream: /)
    const stranger = await registerPerson(app, 'Stranger')
    const saved = await app.call('POST', '/api/saved/sources', {
      as: person,
      body: { name: 'Mine', connector_name: 'dummy', config: {} },
    })
    const stolen = { source: { saved_connector_id: saved.body.id, stream: 'creatures' }, destination: file }
    assert.equal((await preview(stolen)).status, 200)
    assert.equal((await preview(stolen, {}, stranger)).status, 400)
  })

  it('writes nothing on our side', async () => {
    const count = () =>
      app.services.db.first(sql`SELECT (SELECT count(*) FROM pipelines) AS p, (SELECT count(*) FROM runs) AS r,
        (SELECT count(*) FROM pipeline_schemas) AS s, (SELECT count(*) FROM audit_log) AS a`)
    const earlier = await count()
    await preview({ source: dummy(), destination: warehouse('ours') })
    assert.deepEqual(await count(), earlier)
  })
})

describe('a preview of a postgres destination', () => {
  it('lists new and widened columns, rewrites and indexes, and changes nothing there', async () => {
    await client.query(
      'CREATE TABLE made (_record_id text, legs int2, note int4); CREATE TABLE src (id int8, note text, price numeric(10,2))',
    )
    await client.query("INSERT INTO src VALUES (9007199254740993, 'x', 0.10)")
    const earlier = await catalog()
    const source = { name: 'postgres', stream: 'public.src', config: place }
    const rewrite = await preview({ source, destination: warehouse('made') })
    assert.deepEqual(rewrite.body.changes, [
      'replaces all rows of public.made',
      'adds column id int8',
      'adds column price numeric(10,2)',
      'widens column note from int4 to text',
    ])
    assert.match(rewrite.text, /"records":\[\{"id":9007199254740993,"note":"x","price":0\.10\}\]/)
    const upsert = await preview({
      source,
      destination: warehouse('made'),
      sync: { write: 'upsert', primary_key: ['id'] },
    })
    assert.deepEqual(upsert.body.changes.at(-1), 'creates a unique index on id')
    const strict = await preview({ source, destination: warehouse('made'), sync: { schema_change: 'fail' } })
    assert.match(strict.body.problems[0], /schema_change is fail: the field id is new/)
    const created = await preview({ source, destination: warehouse('fresh', { schema: 'other' }) })
    assert.deepEqual(created.body.changes, ['creates schema other', 'creates table other.fresh'])
    assert.deepEqual(await catalog(), earlier)
  })

  it('reports a key that the records do not have, and rights that are missing', async () => {
    const sync = { write: 'upsert', primary_key: ['nope'] }
    const keyless = await preview({ source: dummy(), destination: warehouse('keyless'), sync })
    assert.match(keyless.body.problems[0], /primary_key names nope/)
    await client.query("CREATE ROLE guest LOGIN PASSWORD 'guest-password'; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    const guest = warehouse('denied', { user: 'guest', password: 'guest-password' })
    const denied = await preview({ source: dummy(), destination: guest })
    assert.match(denied.body.problems[0], /may not create tables in the schema public/)
    assert.equal(denied.body.success, true)
  })

  it('shows the records also where the destination cannot be reached', async () => {
    const { body } = await preview({ source: dummy(), destination: warehouse('x', { port: 1 }) })
    assert.equal(body.success, true)
    assert.equal(body.records.length, 10)
    assert.ok(body.columns.length > 0)
    assert.match(body.problems[0], /PostgreSQL at 127\.0\.0\.1:1/)
  })
})

describe('a preview of a mysql destination', { skip: findAbsence() ?? false }, () => {
  it('lists what would change, and changes nothing there', async () => {
    const maria = await startMariadbServer()
    const name = await maria.createDatabase()
    const { host, port, user, password } = maria
    const destination = (table: string) => ({
      name: 'mysql',
      config: { host, port, user, password, database: name, tls: { mode: 'disable' }, table },
    })
    const made = await preview({ source: dummy(), destination: destination('fresh') })
    assert.deepEqual([made.body.changes, made.body.problems], [[`creates table ${name}.fresh`], []])
    await maria.sql('CREATE TABLE made (_record_id varchar(100), legs tinyint) ENGINE=InnoDB', name)
    const sync = { write: 'upsert', primary_key: ['_record_id'] }
    const changed = await preview({ source: dummy(), destination: destination('made'), sync })
    assert.ok(
      changed.body.changes.some((change: string) => change.startsWith('adds column name ')),
      changed.text,
    )
    assert.equal(changed.body.changes.at(-1), 'creates a unique index on _record_id')
    assert.deepEqual(await maria.sql('SHOW TABLES', name), ['made'])
  })
})
