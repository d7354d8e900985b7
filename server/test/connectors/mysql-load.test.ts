import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { ConnectorError, type Sync } from '../../src/connectors/contract.ts'
import type { Job } from '../../src/engine/execute.ts'
import { lineSource } from '../harness/line-source.ts'
import { findAbsence } from '../harness/mariadb-server.ts'
import { type MysqlBench, openMysqlBench } from '../harness/mysql-bench.ts'
import { readJsonRows } from '../harness/mysql-rows.ts'

const absence = findAbsence()
if (absence !== null) console.log(`the mysql destination is not tested: ${absence}`)

describe('the mysql destination', { skip: absence !== null }, () => {
  let m: MysqlBench
  before(async () => {
    if (absence === null) m = await openMysqlBench()
  })
  after(() => m?.close())

  const load = (table: string, lines: readonly string[], sync: Partial<Sync> = {}, config: object = {}): Job =>
    m.bench.job({
      source: lineSource(lines),
      destination: { name: 'mysql', config: { ...m.config, table, ...config } },
      sync,
    })
  const failure = async (job: Job): Promise<ConnectorError> => {
    const error = await m.bench.run(job).then(
      () => null,
      (reason: unknown) => reason,
    )
    assert.ok(error instanceof ConnectorError, String(error))
    return error
  }
  const leftovers = async (): Promise<string[]> =>
    (await m.sql("SHOW TABLES LIKE '\\_sluice\\_%'")).filter((name) => /^_sluice_[op]_/.test(name))

  it('refuses a table without transactions, and a view', async () => {
    await m.sql('CREATE TABLE old_engine (id bigint) ENGINE=MyISAM; CREATE VIEW a_view AS SELECT 1 AS id')
    assert.match((await failure(load('old_engine', ['{"id":1}']))).message, /ALTER TABLE `old_engine` ENGINE = InnoDB/)
    assert.match((await failure(load('a_view', ['{"id":1}']))).message, /a_view is a view/)
  })

  it('loads nothing of a checkpoint in which MySQL would cut, round or leave out a value', async () => {
    await m.sql(`CREATE TABLE tight (id tinyint PRIMARY KEY, t varchar(3), n int NOT NULL)`)
    const wrong: [string, RegExp][] = [
      ['{"id":1,"t":"abcd","n":1}', /Data too long|truncated/],
      ['{"id":1000,"t":"a","n":1}', /Out of range/],
      ['{"id":1,"t":"a","n":null}', /NULL supplied|cannot be null/],
      ['{"id":2,"t":"b","n":1}\n{"id":2,"t":"c","n":1}', /Duplicate entry.*Remove the duplicate/],
    ]
    for (const [lines, message] of wrong) {
      const error = await failure(load('tight', ['{"id":7,"t":"ok","n":1}', ...lines.split('\n')]))
      assert.match(error.message, message)
      assert.equal(error.kind, 'destination')
      assert.deepEqual(await m.sql('SELECT * FROM tight'), [])
    }
  })

  it('keeps indexes, defaults and comments of a table that it replaces, and leaves nothing behind', async () => {
    await m.sql(`CREATE TABLE kept (id bigint PRIMARY KEY COMMENT 'the id', name varchar(50) DEFAULT 'x', extra int DEFAULT 5, KEY by_name (name));
      INSERT INTO kept VALUES (1, 'old', 1)`)
    await m.bench.run(load('kept', ['{"id":2,"name":"new"}'], { write: 'replace' }))
    assert.deepEqual(await m.sql('SELECT * FROM kept'), ['2\tnew\t5'])
    const [definition] = await m.sql('SHOW CREATE TABLE kept')
    assert.match(definition!, /COMMENT 'the id'.*KEY `by_name`/s)
    assert.deepEqual(await leftovers(), [])
  })

  it('exchanges the rows of a table that foreign keys or triggers hang on', async () => {
    await m.sql(`CREATE TABLE parent (id bigint PRIMARY KEY, name longtext); INSERT INTO parent VALUES (1, 'a'), (2, 'b');
      CREATE TABLE child (id int, parent bigint, FOREIGN KEY (parent) REFERENCES parent (id)); INSERT INTO child VALUES (1, 1);
      CREATE TABLE triggered (id bigint); CREATE TABLE seen (id bigint); CREATE TRIGGER tr AFTER INSERT ON triggered FOR EACH ROW INSERT INTO seen VALUES (NEW.id)`)
    await m.bench.run(load('parent', ['{"id":1,"name":"A"}', '{"id":3,"name":"c"}'], { write: 'replace' }))
    assert.deepEqual(await m.sql('SELECT * FROM parent ORDER BY id'), ['1\tA', '3\tc'])
    const error = await failure(load('parent', ['{"id":3,"name":"c"}'], { write: 'replace' }))
    assert.match(error.message, /foreign key constraint fails.*Rows of another table refer to it/s)
    assert.deepEqual(await m.sql('SELECT * FROM parent ORDER BY id'), ['1\tA', '3\tc'])
    await m.bench.run(load('triggered', ['{"id":9}'], { write: 'replace' }))
    assert.deepEqual(await m.sql('SELECT * FROM seen'), ['9'])
  })

  it('recognises by its marker that a swap happened, whoever looks', async () => {
    const first = load('swapped', ['{"id":1}'], { write: 'replace' })
    await m.bench.run(first)
    const lines = lineSource(['{"id":2}', '{"id":3}'])
    const second = {
      ...m.bench.job({ source: lines, destination: first.destination, sync: first.sync }),
      pipeline_id: first.pipeline_id,
    }
    assert.ok(await m.bench.crash(second, 'mysql.publish.swapped', 1))
    assert.deepEqual(await m.sql('SELECT id FROM swapped'), ['2', '3'])
    // The marker, and the old table.
    assert.equal((await leftovers()).length, 2)
    const outcome = await m.bench.run(m.bench.again(second))
    assert.equal(outcome.records_read, 2)
    assert.deepEqual(await m.sql('SELECT id FROM swapped'), ['2', '3'])
    assert.deepEqual(await leftovers(), [])
  })

  it('does not let a late attempt swap after its marker is gone', async () => {
    const job = load('late', ['{"id":1}'], { write: 'replace' })
    const asleep = Promise.withResolvers<void>()
    const wake = Promise.withResolvers<void>()
    const zombie = m.bench.start(job, {
      fault(point) {
        if (point !== 'mysql.publish.marked') return undefined
        asleep.resolve()
        return wake.promise
      },
    })
    await asleep.promise
    await m.bench.run(m.bench.again(job))
    await m.sql('INSERT INTO late (id) VALUES (99)')
    wake.resolve()
    await assert.rejects(zombie.done)
    assert.deepEqual(await m.sql('SELECT id FROM late ORDER BY id'), ['1', '99'])
  })

  it('takes over from an attempt that sleeps in the middle of a load which it will never end', async () => {
    const source = (): ReturnType<typeof lineSource> =>
      lineSource(
        Array.from({ length: 9000 }, (_, id) => `{"id":${id},"t":"${'x'.repeat(200)}"}`),
        { resumable: false },
      )
    const destination = { name: 'mysql', config: { ...m.config, table: 'asleep' } }
    const job = m.bench.job({ source: source(), destination, sync: { write: 'append' } })
    const asleep = Promise.withResolvers<void>()
    const wake = Promise.withResolvers<void>()
    let commits = 0
    const zombie = m.bench.start(job, {
      checkpointRecords: 4000,
      fault(point) {
        if (point !== 'commit:after' || ++commits !== 1) return undefined
        asleep.resolve()
        return wake.promise
      },
    })
    await asleep.promise
    await m.bench.run(m.bench.again(job), { checkpointRecords: 4000 })
    wake.resolve()
    await assert.rejects(zombie.done)
    assert.deepEqual(await m.sql('SELECT count(*), count(DISTINCT id) FROM asleep'), ['9000\t9000'])
  })

  /** Rows of a source that cannot resume, in pages of ten, each a checkpoint. */
  const loadSlowly = (table: string, beforePage: () => Promise<void> | void, config: object = {}): Job =>
    m.bench.job({
      source: lineSource(
        Array.from({ length: 80 }, (_, id) => `{"id":${id}}`),
        { resumable: false, pageRecords: 10, beforePage },
      ),
      destination: { name: 'mysql', config: { ...m.config, table, ...config } },
      sync: { write: 'append' },
    })

  it('ends a statement that goes on over checkpoints before the server would', async () => {
    const job = loadSlowly('slow', () => delay(500), { statement_timeout_seconds: 2 })
    await m.bench.run(job, { checkpointRecords: 10 })
    assert.deepEqual(await m.sql('SELECT count(*), count(DISTINCT id) FROM slow'), ['80\t80'])
  })

  it('goes on where the server ends the idle session of the mark', async () => {
    let commits = 0
    const fault = async (point: string): Promise<void> => {
      if (point !== 'commit:before' || ++commits !== 4) return
      // The other one is in the middle of LOAD DATA.
      const ids = await m.sql(
        "SELECT id FROM information_schema.processlist WHERE user = 'tester' AND command = 'Sleep'",
      )
      assert.equal(ids.length, 1)
      await m.sql(`KILL ${ids[0]}`)
    }
    await m.bench.run(
      loadSlowly('idle', () => undefined),
      { checkpointRecords: 10, fault },
    )
    assert.deepEqual(await m.sql('SELECT count(*), count(DISTINCT id) FROM idle'), ['80\t80'])
  })

  it('needs no rights beyond those that its page lists, in any mode', async () => {
    await m.sql(`CREATE USER least@'%' IDENTIFIED BY 'least-5c2d';
      GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, CREATE TEMPORARY TABLES ON ${m.database}.* TO least@'%'`)
    for (const write of ['append', 'replace', 'upsert'] as const) {
      const sync = { write, primary_key: write === 'upsert' ? ['id'] : [] }
      const config = { user: 'least', password: 'least-5c2d' }
      await m.bench.run(load(`least_${write}`, ['{"id":1}'], sync, config))
      await m.bench.run(load(`least_${write}`, ['{"id":2,"more":"x"}'], sync, config))
      assert.equal((await m.sql(`SELECT * FROM least_${write}`)).length, write === 'replace' ? 1 : 2)
    }
  })

  it('keeps pipelines that load into the same table apart', async () => {
    const sync = { write: 'append' as const, mode: 'incremental' as const }
    const [one, other] = [load('shared', ['{"id":1}', '{"id":2}'], sync), load('shared', ['{"id":3}'], sync)]
    const outcome = await m.bench.run(one)
    assert.equal((await m.bench.run(other)).records_read, 1)
    assert.equal((await m.bench.run(m.bench.next(one, outcome))).records_read, 0)
    assert.deepEqual(await m.sql('SELECT id FROM shared ORDER BY id'), ['1', '2', '3'])
  })

  it('begins anew where its source, stream, cursor field or table changed', async () => {
    await m.sql(`CREATE TABLE from_a (id int PRIMARY KEY, v int); INSERT INTO from_a VALUES (1, 10), (2, 20);
      CREATE TABLE from_b (id int PRIMARY KEY, v int); INSERT INTO from_b VALUES (1, 1), (2, 2), (3, 3)`)
    const copy = (stream: string, table: string, cursor_field = 'id', config: object = {}): Job =>
      m.bench.job({
        source: { name: 'mysql', stream, config: { ...m.config, ...config } },
        destination: { name: 'mysql', config: { ...m.config, table } },
        sync: { mode: 'incremental', write: 'append', cursor_field },
      })
    const first = copy('from_a', 'to_a')
    const outcome = await m.bench.run(first)
    assert.equal(outcome.records_read, 2)
    const host = 'localhost'
    for (const [other, rows] of [
      [copy('from_a', 'to_a', 'id', { user: 'tester', statement_timeout_seconds: 60 }), 0],
      [copy('from_a', 'to_b'), 2],
      [copy('from_b', 'to_a'), 3],
      [copy('from_a', 'to_a', 'v'), 2],
      [copy('from_a', 'to_a', 'id', { host }), 2],
    ] as const) {
      const { source, destination, sync, fingerprint } = other
      const next = m.bench.next(first, outcome, { source, destination, sync, fingerprint })
      assert.equal(
        (await m.bench.run(next)).records_read,
        rows,
        JSON.stringify([source.stream, destination.config.table]),
      )
    }
  })

  it('widens columns without losing the values that were there', async () => {
    const first = load('widened', ['{"id":1,"a":true,"b":1,"c":"2024-01-01","d":"2024-01-01T10:00:00.5Z","e":0.25}'], {
      write: 'append',
    })
    await m.bench.run(first)
    const lines = lineSource([
      '{"id":2,"a":"no","b":1.5,"c":"2024-01-01T10:00:00","d":"yesterday","e":{"x":1},"f":[1]}',
    ])
    await m.bench.run({
      ...m.bench.job({ source: lines, destination: first.destination, sync: first.sync }),
      pipeline_id: first.pipeline_id,
    })
    const rows = (await readJsonRows(m.server, m.database, 'widened')).map((row) => JSON.parse(row) as object)
    assert.deepEqual(rows, [
      { id: 1, a: 'true', b: 1, c: '2024-01-01 00:00:00.000000', d: '2024-01-01T10:00:00.5Z', e: 0.25, f: null },
      { id: 2, a: 'no', b: 1.5, c: '2024-01-01 10:00:00.000000', d: 'yesterday', e: { x: 1 }, f: [1] },
    ])
  })

  it('merges by texts as they are, and refuses a table where MySQL would merge by another index', async () => {
    const upsert = { write: 'upsert' as const, primary_key: ['k'] }
    await m.bench.run(
      load('texts', ['{"k":"a","n":1}', '{"k":"A","n":2}', '{"k":"a ","n":3}', '{"k":"a","n":4}'], upsert),
    )
    assert.deepEqual(await m.sql("SELECT CONCAT('[', k, ']'), n FROM texts ORDER BY n"), [
      '[A]\t2',
      '[a ]\t3',
      '[a]\t4',
    ])
    await m.sql('CREATE TABLE twice (k bigint PRIMARY KEY, mail varchar(50) UNIQUE)')
    assert.match(
      (await failure(load('twice', ['{"k":1,"mail":"x"}'], upsert))).message,
      /unique index mail .* besides config.sync.primary_key/,
    )
    assert.match((await failure(load('texts', ['{"k":null,"n":1}'], upsert))).message, /no value in the primary key/)
  })

  it('warns if the table takes different keys for one, and says what to change', async () => {
    const upsert = { write: 'upsert' as const, primary_key: ['k', 'n'] }
    const lines = ['{"k":"a","n":1,"v":1}', '{"k":"A","n":1,"v":2}']
    const warnings = async (table: string): Promise<string[]> => {
      const attempt = m.bench.start(load(table, lines, upsert))
      await attempt.done
      return attempt.log.filter((line) => line.includes('collation'))
    }
    const create = (table: string, collation: string) =>
      m.sql(`CREATE TABLE ${table} (k varchar(20) COLLATE ${collation}, n bigint, v bigint, PRIMARY KEY (k, n))`)
    await create('loose', 'utf8mb4_general_ci')
    const [sentence, ...more] = await warnings('loose')
    assert.deepEqual(more, [])
    assert.match(sentence!, /^warn The key column k of loose has the collation utf8mb4_general_ci.*'a' and 'A'/)
    assert.deepEqual(await m.sql('SELECT COUNT(*) FROM loose'), ['1'])
    await create('padded', 'utf8mb4_bin')
    assert.match((await warnings('padded'))[0]!, /'a' and 'a '/)
    // What the sentence says helps.
    await m.sql(`DELETE FROM loose; ${/ALTER TABLE .*(?=\.$)/.exec(sentence!)![0]}`)
    assert.deepEqual(await warnings('loose'), [])
    assert.deepEqual(await m.sql('SELECT v FROM loose ORDER BY v'), ['1', '2'])
    assert.deepEqual(await warnings('made_by_us'), [])
    assert.deepEqual(await warnings('made_by_us'), [])
  })

  it('says what to do where it cannot write', async () => {
    await m.sql(`CREATE USER reader@'%' IDENTIFIED BY 'reader-80aa'; GRANT SELECT ON *.* TO reader@'%'`)
    const reader = { user: 'reader', password: 'reader-80aa' }
    const right = await failure(load('any', ['{"id":1}'], {}, reader))
    assert.equal(right.kind, 'auth')
    assert.match(right.message, /CREATE command denied.*Grant the user this privilege/)
    assert.match(
      (await failure(load('any', ['{"id":1}'], {}, { database: 'nowhere' }))).message,
      /Unknown database.*Check the name of the database/,
    )
    const nameless = m.bench.job({
      source: lineSource(['{"id":1}']),
      destination: { name: 'mysql', config: { ...m.config, database: undefined } },
    })
    assert.match((await failure(nameless)).message, /`database` is missing/)
  })

  it('reports a server that ends the session in the middle as one that may come back, and the next attempt goes on', async () => {
    const job = load(
      'killed',
      Array.from({ length: 50 }, (_, id) => `{"id":${id}}`),
      {},
    )
    const attempt = m.bench.start(job, {
      checkpointRecords: 20,
      async fault(point) {
        if (point !== 'mysql.checkpoint.ready') return
        const ids = await m.sql("SELECT id FROM information_schema.processlist WHERE user = 'tester'")
        for (const id of ids) await m.sql(`KILL ${id}`).catch(() => [])
      },
    })
    await assert.rejects(attempt.done, (error: unknown) => error instanceof ConnectorError && error.transient)
    await m.bench.run(m.bench.again(job), { checkpointRecords: 20 })
    assert.deepEqual(await m.sql('SELECT count(*), count(DISTINCT id) FROM killed'), ['50\t50'])
  })
})
