import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import type { Sync } from '../../src/connectors/contract.ts'
import { endOlderAttempts } from '../../src/connectors/postgres/destination/marks.ts'
import type { Session } from '../../src/connectors/postgres/shared/session.ts'
import { plainRows } from '../harness/conformance.ts'
import { startCuttingProxy } from '../harness/cutting-proxy.ts'
import { assertSameRows } from '../harness/ledger.ts'
import { openPostgresBench, type PostgresBench } from '../harness/postgres-bench.ts'

const options = { pageRecords: 5 }
const small = { checkpointRecords: 10 }
/** Before it two COMMITs belong to the fence and three to the opening. */
const firstCheckpoint = 6

describe('loading into postgres', () => {
  let p: PostgresBench
  before(async () => {
    p = await openPostgresBench()
  })
  after(() => p?.close())

  const rowsOf = async (table: string) =>
    (await p.query<{ row: string }>(`SELECT row_to_json(t)::text AS row FROM ${table} AS t`)).map(({ row }) => row)

  for (const write of ['append', 'replace', 'upsert'] as const) {
    for (const when of ['before', 'after'] as const) {
      it(`${write}: a connection lost ${when} the server has seen COMMIT neither loses nor duplicates a row`, async () => {
        const proxy = await startCuttingProxy(p.server)
        const table = `lost_${write}_${when}`
        const sync: Partial<Sync> = { write, primary_key: write === 'upsert' ? ['id'] : [] }
        // COMMITs are sent by the fence, the opening, each checkpoint and the publishing: each is cut once.
        for (let nth = 1; nth <= 11; nth += 1) {
          const job = p.load(`${table}_${nth}`, plainRows(33), sync, options)
          job.destination.config = { ...job.destination.config, port: proxy.port }
          proxy.cutAt('COMMIT\0', nth, when)
          const attempt = p.bench.start(job, small)
          await attempt.done.catch(() => p.bench.run(p.bench.again(job), small))
          assertSameRows(await rowsOf(`${table}_${nth}`), plainRows(33), `COMMIT ${nth} lost ${when}`)
        }
        assert.ok(proxy.cuts >= 9)
        await proxy.close()
      })
    }
  }

  it('continues if only the answer to COMMIT was lost', async () => {
    const proxy = await startCuttingProxy(p.server)
    const job = p.load('answered', plainRows(33), { write: 'append' }, options)
    job.destination.config = { ...job.destination.config, port: proxy.port }
    proxy.cutAt('COMMIT\0', firstCheckpoint, 'after')
    const attempt = p.bench.start(job, small)
    await attempt.done
    assert.equal(proxy.cuts, 1)
    assert.ok(attempt.log.some((line) => line.includes('lost during COMMIT')))
    assertSameRows(await rowsOf('answered'), plainRows(33))
    await proxy.close()
  })

  it('waits for a destination that restarts in the middle of the load', async () => {
    const proxy = await startCuttingProxy(p.server)
    const job = p.load('restarted', plainRows(33), { write: 'append' }, options)
    job.destination.config = { ...job.destination.config, port: proxy.port }
    proxy.cutAt('COMMIT\0', firstCheckpoint, 'after', 2000)
    const attempt = p.bench.start(job, small)
    await attempt.done
    assert.equal(proxy.cuts, 1)
    assertSameRows(await rowsOf('restarted'), plainRows(33))
    await proxy.close()
  })

  it('the fence ends sessions of older attempts and of the same, never of newer ones', async () => {
    const pipeline_id = '11111111-1111-4111-8111-111111111111'
    const open = async (application_name: string) => {
      const client = new pg.Client({ ...p.server, database: p.database, application_name })
      client.on('error', () => undefined)
      await client.connect()
      await client.query('BEGIN')
      return client
    }
    const names = ['5.1', '4.9', '5.2', '5.3', '6.1', '10.1', 'x.1'].map((which) => `sluice ${pipeline_id} ${which}`)
    const clients = await Promise.all(names.map(open))
    const idle = await open(`sluice ${pipeline_id} 5.1`)
    await idle.query('COMMIT')
    const own = await open('test')
    const session = { query: async (text: string, values?: unknown[]) => (await own.query(text, values)).rows }
    await endOlderAttempts(session as unknown as Session, {
      schema: 'public',
      pipeline_id,
      run_id: pipeline_id,
      seq: 5,
      attempt: 2,
      token: '',
      installation: '',
    })
    const alive = await Promise.all(clients.map((client) => client.query('SELECT 1').then(Boolean, () => false)))
    assert.deepEqual(alive, [false, false, false, true, true, true, true])
    // Behind a pooler this may serve somebody else by now.
    assert.ok(await idle.query('SELECT 1'), 'a session without a transaction holds nothing and is left alone')
    await Promise.all([...clients, idle, own].map((client) => client.end().catch(() => undefined)))
  })

  it('ends a stopped attempt that holds the mark in the middle of a COPY', async () => {
    const job = p.load('stopped', plainRows(40), { write: 'append' }, options)
    let arrive = (): void => undefined
    const arrived = new Promise<void>((resolve) => {
      arrive = resolve
    })
    const stopped = p.bench.start(job, {
      ...small,
      fault: (point) => {
        if (point !== 'postgres.checkpoint.copied') return undefined
        arrive()
        return new Promise<void>(() => undefined)
      },
    })
    await arrived
    const outcome = await p.bench.run(p.bench.again(job), small)
    assert.equal(outcome.records_written, 40)
    assertSameRows(await rowsOf('stopped'), plainRows(40))
    stopped.cut()
  })

  it('serializes pipelines that write to, and alter, the same table', async () => {
    const jobs = [1, 2, 3].map((n) =>
      p.load(
        'shared',
        Array.from(
          { length: 60 },
          (_, at) => `{"id":${at},"from_${n}":${at % 2 ? `${at}.5` : at},"late_${n}":${at > 30 ? '"x"' : 'null'}}`,
        ),
        { write: 'upsert', primary_key: ['id'] },
        options,
      ),
    )
    await Promise.all(jobs.map((job) => p.bench.run(job, small)))
    const [counts] = await p.query(
      'SELECT count(*)::int4 AS n, count(from_1)::int4 AS one, count(from_2)::int4 AS two, count(from_3)::int4 AS three, count(late_2)::int4 AS late FROM shared',
    )
    assert.deepEqual(counts, { n: 60, one: 60, two: 60, three: 60, late: 29 })
  })

  for (const write of ['append', 'upsert'] as const) {
    it(`${write}: does not narrow what another pipeline has widened meanwhile`, async () => {
      const table = `widened_${write}`
      const sync: Partial<Sync> = { write, primary_key: write === 'upsert' ? ['id'] : [] }
      const rows = Array.from({ length: 30 }, (_, at) => `{"id":${at},"n":${at}}`)
      let others = 0
      await p.bench.run(p.load(table, rows, sync, options), {
        ...small,
        async fault(point) {
          if (point === 'commit:after' && ++others === 1) {
            await p.bench.run(p.load(table, ['{"id":100,"n":0.12345678901234567890,"extra":true}'], sync))
          }
        },
      })
      const [other] = await p.query(`SELECT n::text, extra FROM ${table} WHERE id = 100`)
      assert.deepEqual(other, { n: '0.12345678901234567890', extra: true })
      assert.equal((await p.query(`SELECT FROM ${table}`)).length, 31)
    })
  }

  it('drops the stages that lost attempts left behind', async () => {
    const stages = async () =>
      (await p.query("SELECT relname FROM pg_class WHERE relname LIKE '\\_sluice\\_s\\_%' AND relkind = 'r'")).length
    const job = p.load('littered', plainRows(30), { write: 'append' }, { ...options, resumable: false })
    assert.ok(await p.bench.crash(job, 'commit:after', 2, small))
    assert.equal(await stages(), 1)
    await p.query('CREATE TABLE _sluice_s_of_nobody (a int)')
    await p.bench.run(p.bench.again(job), small)
    assert.equal(await stages(), 0)
    assertSameRows(await rowsOf('littered'), plainRows(30))
  })

  it('leaves no stage behind after a run that failed or was cancelled and cannot resume', async () => {
    const stages = async () =>
      (await p.query("SELECT relname FROM pg_class WHERE relname LIKE '\\_sluice\\_s\\_%' AND relkind = 'r'")).length
    const failing = p.load(
      'failing',
      plainRows(30),
      { write: 'replace' },
      {
        ...options,
        resumable: false,
        beforePage: (given) => {
          if (given === 25) throw new Error('the source broke')
        },
      },
    )
    await assert.rejects(p.bench.run(failing, small), /the source broke/)
    assert.equal(await stages(), 0)
    const cancelled = p.bench.start(
      p.load('failing', plainRows(30), { write: 'replace' }, { ...options, resumable: false }),
      {
        ...small,
        fault: (point) => {
          if (point === 'postgres.checkpoint.committed') cancelled.cancel()
        },
      },
    )
    await assert.rejects(cancelled.done, /cancelled/)
    assert.equal(await stages(), 0)
  })

  it('does not load again what was published before a crash', async () => {
    const job = p.load('published', plainRows(30), { write: 'append' }, { ...options, resumable: false })
    assert.ok(await p.bench.crash(job, 'publish:after', 1, small))
    const again = p.bench.start(p.bench.again(job), small)
    await again.done
    assert.equal(again.commits, 0)
    assertSameRows(await rowsOf('published'), plainRows(30))
  })

  it('copies an incremental table to table, change by change', async () => {
    await p.query(
      `CREATE TABLE live (id int8 PRIMARY KEY, v text, at timestamptz DEFAULT clock_timestamp()); INSERT INTO live (id, v) SELECT g, 'a' FROM generate_series(1, 500) g`,
    )
    const job = p.bench.job({
      source: { name: 'postgres', stream: 'public.live', config: p.config },
      destination: { name: 'postgres', config: { ...p.config, table: 'mirror' } },
      sync: { mode: 'incremental', cursor_field: 'at', write: 'upsert', primary_key: ['id'] },
    })
    const first = await p.bench.run(job)
    await p.query(
      "UPDATE live SET v = 'b', at = clock_timestamp() WHERE id <= 20; INSERT INTO live (id, v) VALUES (501, 'new')",
    )
    const second = await p.bench.run(p.bench.next(job, first))
    assert.equal(second.records_read, 21)
    assertSameRows(await rowsOf('mirror'), await rowsOf('live'))
  })
})
