/** A pooler in transaction mode: nothing that we do may be left on the connections that the tenant's application uses too. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import type { Sync } from '../../src/connectors/contract.ts'
import { postgresDestination } from '../../src/connectors/postgres/destination/destination.ts'
import { postgresSource } from '../../src/connectors/postgres/source/source.ts'
import { plainRows } from '../harness/conformance.ts'
import { findPgBouncer, type PgBouncer, startPgBouncer } from '../harness/pgbouncer.ts'
import { openPostgresBench, type PostgresBench } from '../harness/postgres-bench.ts'
import { sourceContext } from '../harness/source-context.ts'
import { type RecordedConnection, startStatementRecorder } from '../harness/statement-recorder.ts'

const syncs: Partial<Sync>[] = [
  { write: 'append', mode: 'incremental', cursor_field: 'at' },
  { write: 'upsert', primary_key: ['id'], mode: 'incremental', cursor_field: 'at' },
  { write: 'replace' },
]
const small = { checkpointRecords: 2000 }

/** Everything that the connectors do, over the given port. */
async function doEverything(p: PostgresBench, port: number): Promise<void> {
  const config = { ...p.config, port }
  await p.query(`CREATE TABLE shop (id int8 PRIMARY KEY, at timestamptz, filler text); ALTER TABLE shop ALTER filler SET STORAGE PLAIN;
    INSERT INTO shop SELECT g, now(), repeat('x', 7000) FROM generate_series(1, 10000) g`)
  const context = sourceContext(p.bench, postgresSource, {
    config: { ...config, queries: { some: 'SELECT 1 AS id', broken: 'SELECT nothing FROM nowhere' } },
  })
  await assert.rejects(postgresSource.check(context), /cannot be run/)
  await postgresSource.listStreams(context)
  await postgresSource.describe(context, ['public.shop', 'some', 'broken'])
  for (const [at, sync] of syncs.entries()) {
    const job = p.bench.job({
      source: { name: 'postgres', stream: 'public.shop', config },
      destination: { name: 'postgres', config: { ...config, table: `copy_${at}` } },
      sync,
    })
    const { destination } = job
    await postgresDestination.check({
      ...context,
      config: { schema: 'public', statement_timeout_seconds: 0, ...destination.config },
    })
    await p.bench.run({ ...job, columns: { exclude: ['filler'] } }, small)
    const [count] = await p.query(`SELECT count(*)::int4 AS n FROM copy_${at}`)
    assert.equal(count!.n, 10000)
    // New columns, wider types, a run that is lost and one that cleans up.
    const wider = plainRows(50).map((row) => row.replace('"name"', '"filler"'))
    const lines = p.load(`copy_${at}`, wider, { write: sync.write!, primary_key: ['id'] }, { pageRecords: 5 })
    lines.destination.config = { ...lines.destination.config, port }
    assert.ok(await p.bench.crash(lines, 'commit:after', 2, { checkpointRecords: 10 }))
    await p.bench.run(p.bench.again(lines), { checkpointRecords: 10 })
    const failing = p.load('never', wider, { write: 'replace' }, { resumable: false, pageRecords: 5 })
    failing.destination.config = { ...failing.destination.config, port }
    await assert.rejects(
      p.bench.run(
        { ...failing, sync: { ...failing.sync, schema_change: 'fail' } },
        {
          fault: (point) => {
            if (point === 'postgres.publish.marked') throw new Error('broke off')
          },
        },
      ),
      /broke off/,
    )
  }
}

describe('what postgres is asked', () => {
  let p: PostgresBench
  before(async () => {
    p = await openPostgresBench()
  })
  after(() => p?.close())

  it('sets nothing outside of a transaction, and nothing that outlives one', async () => {
    const recorder = await startStatementRecorder(p.server)
    await doEverything(p, recorder.port).finally(() => recorder.close())
    assert.ok(recorder.connections.length > 10)
    for (const connection of recorder.connections) assertTransactional(connection)
  })
})

const lasting: [what: string, pattern: RegExp][] = [
  ['a session setting', /(^|;)\s*SET\s+(?!LOCAL\b|TRANSACTION\b|CONSTRAINTS\b)/i],
  ['a session setting', /\bset_config\s*\([^)]*,\s*false\s*\)/i],
  ['RESET or DISCARD', /(^|;)\s*(RESET|DISCARD)\b/i],
  ['a temporary table', /\bCREATE\s+(LOCAL\s+|GLOBAL\s+)?TEMP(?![\s\S]*ON COMMIT DROP)/i],
  ['a session lock', /\bpg_(try_)?advisory_lock/i],
  ['a listener', /(^|;)\s*LISTEN\b/i],
  ['a prepared statement', /(^|;)\s*PREPARE\b/i],
  ['a cursor', /\bWITH\s+HOLD\b/i],
]

function assertTransactional({ parameters, statements }: RecordedConnection): void {
  const known = ['user', 'database', 'application_name', 'client_encoding']
  assert.deepEqual(
    Object.keys(parameters).filter((name) => !known.includes(name)),
    [],
    'start-up parameters that a pooler may refuse, or hand on',
  )
  let open = false
  for (const { text, name } of statements) {
    assert.equal(name, '', `a named statement: ${text}`)
    for (const [what, pattern] of lasting) assert.doesNotMatch(text, pattern, what)
    if (/^BEGIN\b/.test(text)) open = true
    assert.ok(open, `outside of a transaction: ${text}`)
    if (/^(COMMIT|ROLLBACK)$/.test(text)) open = false
    else assert.doesNotMatch(text, /;\s*(COMMIT|ROLLBACK)\s*(;|$)/, 'a transaction ends in the middle of a script')
  }
}

const found = findPgBouncer()
if ('missing' in found) console.log(`The postgres connectors are not tested behind a pooler: ${found.missing}`)
else
  describe('behind PgBouncer in transaction mode', () => {
    let p: PostgresBench
    let pooler: PgBouncer
    before(async () => {
      p = await openPostgresBench()
      pooler = await startPgBouncer(found.command, p.server, 3)
    })
    after(async () => {
      await pooler?.close()
      await p?.close()
    })

    const connectApplication = async () => {
      const client = new pg.Client({ ...p.server, port: pooler.port, database: p.database })
      await client.connect()
      return client
    }
    /** What the application finds on whichever connection it gets. */
    const lookAround = async (client: pg.Client) =>
      (
        await client.query(`SELECT pg_backend_pid() AS pid,
          (SELECT json_object_agg(name, setting ORDER BY name) FROM pg_settings WHERE source = 'session' AND name <> 'application_name') AS settings,
          (SELECT count(*)::int4 FROM pg_locks WHERE locktype = 'advisory') AS locks,
          (SELECT count(*)::int4 FROM pg_class WHERE relpersistence = 't') AS temporary,
          (SELECT count(*)::int4 FROM pg_prepared_statements) AS prepared,
          (SELECT count(*)::int4 FROM pg_listening_channels()) AS listening`)
      ).rows[0] as { pid: number } & Record<string, unknown>

    it('leaves its connections as they were, and loads every row', { timeout: 120_000 }, async () => {
      const applications = await Promise.all([1, 2, 3].map(connectApplication))
      const lookAll = async () => {
        await Promise.all(applications.map((client) => client.query('BEGIN')))
        const all = await Promise.all(applications.map(lookAround))
        await Promise.all(applications.map((client) => client.query('COMMIT')))
        return new Map(all.map(({ pid, ...rest }) => [pid, rest]))
      }
      const [fresh] = [...(await lookAll()).values()]
      await doEverything(p, pooler.port)
      // A pooler replaces the connections of clients that died in a transaction, so some of these are new.
      const before = await lookAll()
      for (const [pid, found] of before) assert.deepEqual(found, fresh, `on connection ${pid}`)
      for (const [at, sync] of syncs.entries()) {
        const job = p.load(`again_${at}`, plainRows(100), { ...sync, mode: 'full_refresh' }, { pageRecords: 20 })
        job.destination.config = { ...job.destination.config, port: pooler.port }
        await p.bench.run(job, { checkpointRecords: 40, holdBytes: 1 })
      }
      assert.deepEqual(await lookAll(), before, 'the same connections, as they were')
      for (const client of applications) {
        await client.query('CREATE TABLE IF NOT EXISTS of_the_application (a int4)')
        await client.end()
      }
    })

    it('reads with one connection where the pool has no second', { timeout: 60_000 }, async () => {
      const narrow = await startPgBouncer(found.command, p.server, 1)
      const job = p.read('public.shop', {}, { port: narrow.port, parallel: 2 })
      const reading = p.bench.run({ ...job, columns: { include: ['id'] } })
      const outcome = await reading.finally(() => narrow.close())
      assert.equal(outcome.records_read, 10000)
    })
  })
