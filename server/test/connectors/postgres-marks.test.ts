/** The table of marks: made by an older release, owned by somebody else, and what a fenced attempt says about it. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Job } from '../../src/engine/execute.ts'
import { plainRows } from '../harness/conformance.ts'
import { openPostgresBench, type PostgresBench } from '../harness/postgres-bench.ts'

let p: PostgresBench
before(async () => {
  p = await openPostgresBench()
})
after(() => p?.close())

/** As older releases made it. */
const oldTable = (schema: string) => `
  CREATE SCHEMA ${schema};
  CREATE TABLE ${schema}._sluice_marks (
    pipeline_id text PRIMARY KEY, run_id text NOT NULL, seq int8 NOT NULL, attempt int4 NOT NULL, checkpoint int8 NOT NULL,
    cursor json, base_cursor json, published boolean NOT NULL, stage text, updated_at timestamptz NOT NULL DEFAULT now()
  ) WITH (fillfactor = 50)`
const inSchema = (job: Job, schema: string, config: object = {}): Job => ({
  ...job,
  destination: { ...job.destination, config: { ...job.destination.config, schema, ...config } },
})
const incremental = { mode: 'incremental', write: 'append' } as const
const count = async (table: string) =>
  Number((await p.query<{ count: string }>(`SELECT count(*) FROM ${table}`))[0]!.count)
const mark = async (job: Job, schema = 'public') =>
  (
    await p.query<{ run_id: string; token: string; installation: string; seq: string }>(
      `SELECT * FROM ${schema}._sluice_marks WHERE pipeline_id = $1`,
      [job.pipeline_id],
    )
  )[0]!

/** A run of an older release: its mark without the new columns, its point without an id. */
async function loadAsBefore(job: Job, schema: string): Promise<void> {
  await p.bench.run(job)
  await p.query(`
    ALTER TABLE ${schema}._sluice_marks DROP COLUMN token, DROP COLUMN installation;
    UPDATE ${schema}._sluice_marks SET cursor = (cursor::jsonb - 'run_id' - 'fingerprint')::json, base_cursor = (base_cursor::jsonb - 'run_id' - 'fingerprint')::json`)
}

describe('marks', () => {
  it('name the run, its attempt and the installation', async () => {
    const job = p.load('named', plainRows(5), { write: 'append' })
    await p.bench.run(job)
    const { run_id, token, installation } = await mark(job)
    assert.deepEqual(
      { run_id, token, installation },
      { run_id: job.run_id, token: job.token, installation: 'this one' },
    )
  })

  it('of an older release are brought up to date where they are, and the next run goes on from them', async () => {
    const first = inSchema(p.load('t', plainRows(10), incremental), 'older')
    await loadAsBefore(first, 'older')
    const next = inSchema(p.follow(first, plainRows(25), incremental), 'older')
    const attempt = p.bench.start(next)
    assert.equal((await attempt.done).records_read, 15)
    assert.equal(await count('older.t'), 25)
    assert.equal((await mark(next, 'older')).token, next.token)
    assert.doesNotMatch(attempt.log.join('\n'), /installation/, 'nobody knows which installation it was')
  })

  it('of an older release are believed about a run that had published and not ended', async () => {
    const job = inSchema(p.load('t', plainRows(10), { write: 'append' }), 'unended')
    await loadAsBefore(job, 'unended')
    const again = p.bench.start(p.bench.again(job))
    await again.done
    assert.match(again.log.join('\n'), /only finishing the run was left/)
    assert.equal(await count('unended.t'), 10)
  })

  it('are brought up to date while others load, without making them wait for long', async () => {
    await p.query(oldTable('busy'))
    const other = await p.server.connect(p.database)
    await other.query("BEGIN; INSERT INTO busy._sluice_marks VALUES ('x', '', 1, 1, 0, NULL, NULL, false)")
    const run = p.bench.start(inSchema(p.load('t', plainRows(5), { write: 'append' }), 'busy'))
    const waits = `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%ALTER TABLE%busy%'`
    while ((await count(`(${waits.replace('count(*)', '1')}) w`)) === 0) await new Promise(setImmediate)
    await p.query("INSERT INTO busy._sluice_marks VALUES ('y', '', 1, 1, 0, NULL, NULL, false)")
    await other.query('COMMIT')
    await run.done
    assert.equal(await count('busy.t'), 5)
    assert.equal(await count('busy._sluice_marks'), 3)
  })

  it('that the role may not change are told with the statement that helps', async () => {
    await p.query(oldTable('foreign_marks'))
    await p.query(`
      CREATE ROLE guest LOGIN PASSWORD 'guest word';
      GRANT USAGE, CREATE ON SCHEMA foreign_marks TO guest;
      GRANT SELECT, INSERT, UPDATE ON foreign_marks._sluice_marks TO guest`)
    const guest = { user: 'guest', password: 'guest word' }
    const job = inSchema(p.load('t', plainRows(5), { write: 'append' }), 'foreign_marks', guest)
    const refused = await p.bench.run(job).then(
      () => '',
      (error: Error) => error.message,
    )
    assert.match(refused, /only the owner of that table can add them\. Let the owner run this once: ALTER TABLE/)
    await p.query(refused.slice(refused.indexOf('ALTER TABLE')))
    await p.bench.run(p.bench.again(job))
    assert.equal(await count('foreign_marks.t'), 5)
  })

  it('that are ahead say whose they are and what to do', async () => {
    const first = p.load('ahead', plainRows(10), { write: 'append' })
    await p.bench.run(first)
    for (const seq of [first.seq, first.seq - 1]) {
      const behind = { ...p.follow(first, plainRows(5)), seq }
      await assert.rejects(p.bench.run(behind), ({ message }: Error) => {
        assert.match(
          message,
          new RegExp(`public\\._sluice_marks belongs to run ${first.run_id} \\(number ${first.seq}\\)`),
        )
        assert.match(message, /of this installation, and this run is number .*`sluice restored` once/)
        return true
      })
      await assert.rejects(p.bench.run({ ...behind, installation: 'copy' }), /of installation this one/)
    }
    assert.equal(await count('ahead'), 10)
  })

  it('of another installation are taken over with a warning', async () => {
    const first = p.load('moved', plainRows(10), incremental)
    await p.bench.run(first)
    const next = { ...p.follow(first, plainRows(12), incremental), installation: 'restored one' }
    const attempt = p.bench.start(next)
    assert.equal((await attempt.done).records_read, 2)
    assert.match(attempt.log.join('\n'), /warn .*last loaded by installation this one, and this is restored one/)
    const quiet = p.bench.start({ ...p.follow(first, plainRows(13), incremental), installation: 'restored one' })
    await quiet.done
    assert.doesNotMatch(quiet.log.join('\n'), /installation/)
  })

  it('are taken from a worker with the same attempt that is stopped in the middle of a load', async () => {
    const job = p.load('same', plainRows(40), { write: 'append' }, { pageRecords: 5 })
    const stopped = Promise.withResolvers<void>()
    const wake = Promise.withResolvers<void>()
    const first = p.bench.start(job, {
      checkpointRecords: 10,
      fault: (point) => {
        if (point !== 'postgres.checkpoint.copied') return undefined
        stopped.resolve()
        return wake.promise
      },
    })
    await stopped.promise
    const again = p.bench.again(job)
    await p.bench.run({ ...again, attempt: job.attempt }, { checkpointRecords: 10 })
    wake.resolve()
    await assert.rejects(first.done)
    assert.equal(await count('same'), 40)
  })
})
