/** What a failed run says it wrote is what is in the table. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { startEngine } from '../harness/engine.ts'
import { type PostgresServer, startPostgresServer, stopPostgresServer } from '../harness/postgres-server.ts'

const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.0/8', RUN_CHECKPOINT_MS: '100' })
let server: PostgresServer
let client: pg.Client
let database: string

before(async () => {
  server = await startPostgresServer()
  database = await server.createDatabase()
  client = await server.connect(database)
  await engine.work()
})
after(() => stopPostgresServer())

async function failing(table: string, dummy: object, sync: object) {
  const { host, port, user, password } = server
  const settings = { host, port, user, password, database, tls: { mode: 'disable' }, table }
  const pipeline = await engine.createPipeline({
    source: { name: 'dummy', stream: 'creatures', config: dummy },
    destination: { name: 'postgres', config: settings },
    columns: { include: ['id'] },
    sync,
  })
  const run = await engine.finished(await engine.trigger(pipeline))
  assert.equal(run.status, 'failed')
  const { rows } = await client.query(`SELECT count(*)::int AS n FROM public.${table}`)
  return { ...run, found: rows[0].n as number }
}

test('one row that the table refuses leaves nothing, and nothing is said to be written', async () => {
  await client.query('CREATE TABLE refused (id int8 CHECK (id < 300))')
  const run = await failing('refused', { records: 400 }, { write: 'append' })
  assert.match(run.error!, /violates check constraint/)
  assert.deepEqual([run.records_written, run.found], [0, 0])
})

test('checkpoints that were committed before the failure count, and no more than they', async () => {
  await client.query('CREATE TABLE partly (id int8 CHECK (id < 60))')
  const dummy = { records: 80, delay_ms: 20 }
  const run = await failing('partly', dummy, { write: 'append', mode: 'incremental', cursor_field: 'id' })
  assert.ok(run.found > 0 && run.found < 60, `${run.found} rows`)
  assert.equal(run.records_written, run.found)
})
