/**
 * What goes wrong on a real server: it is full, killed, read-only, locked, or takes only short packets. Each is a sentence
 * that says what to do, nothing is loaded in part, and the run goes on once the cause is gone.
 */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { ConnectorError, type Sync } from '../../src/connectors/contract.ts'
import { mysqlDestination } from '../../src/connectors/mysql/destination/destination.ts'
import { openSession, type Session } from '../../src/connectors/mysql/shared/session.ts'
import { resolveTarget } from '../../src/connectors/mysql/shared/settings.ts'
import type { Job } from '../../src/engine/execute.ts'
import { lineSource } from '../harness/line-source.ts'
import { findAbsence, type MariadbServer, startServer } from '../harness/mariadb-server.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'

const absence = findAbsence()
if (absence !== null) console.log(`failures of a mysql server are not tested: ${absence}`)

const MB = 1024 * 1024

async function failureOf(work: Promise<unknown>): Promise<ConnectorError> {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof ConnectorError, String(error))
  return error
}

function settingsOf({ host, port, user, password }: MariadbServer, database: string): Record<string, unknown> {
  return { host, port, user, password, database, tls: { mode: 'disable' } }
}

describe('a MySQL server', { skip: absence !== null }, () => {
  let server: MariadbServer
  let bench: RunBench
  let config: Record<string, unknown>
  let database: string
  const sessions: Session[] = []

  before(async () => {
    if (absence !== null) return
    server = await startServer({
      max_allowed_packet: String(MB),
      innodb_lock_wait_timeout: '2',
      // What was committed must be there after SIGKILL.
      innodb_flush_log_at_trx_commit: '2',
    })
    bench = await openRunBench()
    database = await server.createDatabase()
    config = settingsOf(server, database)
  })
  after(async () => {
    await bench?.close()
    await server?.stop()
  })
  afterEach(() => {
    for (const session of sessions.splice(0)) session.destroy()
  })

  const sql = (text: string): Promise<string[]> => server.sql(text, database)
  const load = (table: string, lines: readonly string[], sync: Partial<Sync> = {}, extra: object = {}): Job =>
    bench.job({
      source: lineSource(lines, { pageRecords: 10 }),
      destination: { name: 'mysql', config: { ...config, table, ...extra } },
      sync: { write: 'append', ...sync },
    })
  const numbers = (count: number, from = 1): string[] =>
    Array.from({ length: count }, (_, index) => `{"id":${from + index},"t":"x"}`)
  /** Somebody else's session. */
  const openOther = async (): Promise<Session> => {
    const session = await openSession(resolveTarget(config), {
      egress: bench.egress,
      signal: new AbortController().signal,
      side: 'destination',
      program: 'test',
    })
    sessions.push(session)
    return session
  }
  const noStages = async (): Promise<void> => assert.deepEqual(await sql("SHOW TABLES LIKE '\\_sluice\\_s%'"), [])

  for (const write of ['append', 'replace', 'upsert'] as const)
    it(`that is killed in the middle of ${write} has every row once, after it came back`, async () => {
      const job = load(`killed_${write}`, numbers(60), { write, primary_key: write === 'upsert' ? ['id'] : [] })
      let killed = 0
      const attempt = bench.start(job, {
        checkpointRecords: 20,
        async fault(point) {
          if (point !== 'mysql.checkpoint.ready' || ++killed !== 2) return
          await server.kill()
          await server.restart()
        },
      })
      // The rows of a checkpoint may be lost with the server; then the next attempt loads them.
      const error = await attempt.done.then(
        () => null,
        (reason: unknown) => reason,
      )
      if (error !== null) {
        assert.ok(error instanceof ConnectorError && error.transient, String(error))
        assert.match(error.message, /connection was lost/)
        await bench.run(bench.again(job), { checkpointRecords: 20 })
      }
      assert.ok(killed >= 2)
      assert.deepEqual(await sql(`SELECT count(*), count(DISTINCT id) FROM killed_${write}`), ['60\t60'])
      await noStages()
    })

  it('that is gone is reported as one that cannot be reached', async () => {
    await server.kill()
    const error = await failureOf(bench.run(load('gone', numbers(1))))
    assert.deepEqual([error.kind, error.transient], ['destination', true])
    assert.match(error.message, /^MySQL at 127\.0\.0\.1:\d+ cannot be reached: /)
    await server.restart()
  })

  it('that takes only short packets gets long rows in several, and says which value is too long for it', async () => {
    const long = (size: number): string => `{"id":1,"t":"${'é'.repeat(size / 2)}"}`
    await bench.run(load('long_rows', [long(900_000), ...numbers(3, 2)]))
    assert.deepEqual(await sql('SELECT id, length(t) FROM long_rows ORDER BY id LIMIT 2'), ['1\t900000', '2\t1'])
    await bench.run(load('longer_rows', [long(3 * MB)]))
    assert.deepEqual(await sql('SELECT id, length(t) FROM longer_rows'), [`1\t${3 * MB}`])
    await sql('SET GLOBAL local_infile = OFF')
    // By INSERT a statement is one packet.
    const many = Array.from({ length: 40 }, (_, id) => `{"id":${id},"t":"${'€'.repeat(20_000)}"}`)
    await bench.run(load('inserted', many))
    assert.deepEqual(await sql('SELECT count(*), sum(char_length(t)) FROM inserted'), ['40\t800000'])
    const error = await failureOf(bench.run(load('too_long', [long(3 * MB)])))
    assert.match(error.message, /max_allowed_packet.*Raise max_allowed_packet on the server/)
    assert.deepEqual([error.kind, error.transient], ['config', false])
    assert.deepEqual(await sql("SHOW TABLES LIKE 'too_long'"), [])
    await sql('SET GLOBAL local_infile = ON')
  })

  it('that takes only short packets gives and takes longer bytes', async () => {
    await sql(`SET GLOBAL max_allowed_packet = ${8 * MB}`)
    await sql(`CREATE TABLE bytes (id int, raw longblob); INSERT INTO bytes VALUES (1, repeat('x', ${3 * MB}))`)
    await sql(`SET GLOBAL max_allowed_packet = ${MB}`)
    const copy = bench.job({
      source: { name: 'mysql', stream: 'bytes', config },
      destination: { name: 'mysql', config: { ...config, table: 'bytes_copied' } },
    })
    await bench.run(copy)
    assert.deepEqual(await sql('SELECT id, length(raw) FROM bytes_copied'), [`1\t${3 * MB}`])
  })

  it('that is read-only says so in the check and in the run', async () => {
    await sql(
      `CREATE USER IF NOT EXISTS loader@'%' IDENTIFIED BY 'loader-19ab'; GRANT ALL ON ${database}.* TO loader@'%'; SET GLOBAL read_only = ON`,
    )
    const loader = { user: 'loader', password: 'loader-19ab' }
    try {
      const error = await failureOf(bench.run(load('refused', numbers(1), {}, loader)))
      assert.match(error.message, /read-only.*Give the address of a server that accepts writes/)
      assert.deepEqual([error.kind, error.transient], ['config', false])
      const checked = await failureOf(
        mysqlDestination.check({
          config: { ...config, ...loader, statement_timeout_seconds: 0 },
          signal: AbortSignal.timeout(10_000),
          egress: bench.egress,
          log: { debug() {}, info() {}, warn() {}, error() {} },
        } as never),
      )
      assert.match(checked.message, /does not accept writes.*give the address of the primary/)
    } finally {
      await sql('SET GLOBAL read_only = OFF')
    }
  })

  it('whose rows somebody else has locked says so after its own time limit, and the next attempt goes on', async () => {
    const upsert = { write: 'upsert' as const, primary_key: ['id'] }
    await bench.run(load('locked', numbers(3), upsert))
    const other = await openOther()
    await other.run('START TRANSACTION')
    await other.run(`UPDATE ${database}.locked SET t = 'mine' WHERE id = 2`)
    const job = load('locked', numbers(3), upsert)
    const error = await failureOf(bench.run(job))
    assert.match(error.message, /Lock wait timeout.*Another session holds a lock; end long transactions/)
    assert.deepEqual([error.kind, error.transient], ['destination', true])
    await other.run('ROLLBACK')
    await bench.run(bench.again(job))
    assert.deepEqual(await sql("SELECT count(*) FROM locked WHERE t = 'x'"), ['3'])
  })

  it('that ends us in a deadlock is tried again, and every row is there once', async () => {
    const upsert = { write: 'upsert' as const, primary_key: ['id'] }
    await bench.run(load('entangled', numbers(3), upsert))
    await sql('CREATE TABLE heavy (id int)')
    const other = await openOther()
    await other.run('START TRANSACTION')
    // InnoDB ends the transaction that changed less.
    await other.run(`INSERT INTO ${database}.heavy SELECT seq FROM seq_1_to_2000`)
    await other.run(`UPDATE ${database}.entangled SET t = 'mine' WHERE id = 2`)
    const job = load('entangled', numbers(3), upsert)
    let crossing: Promise<unknown> | null = null
    const attempt = bench.start(job, {
      fault(point) {
        // We hold the mark, and will wait for a row of the other, which now waits for the mark.
        if (point !== 'mysql.checkpoint.marked') return
        crossing ??= other.run(`UPDATE ${database}._sluice_marks SET updated_at = updated_at`)
      },
    })
    const error = await failureOf(attempt.done)
    assert.match(error.message, /[Dd]eadlock/)
    assert.deepEqual([error.kind, error.transient], ['destination', true])
    await crossing
    await other.run('ROLLBACK')
    await bench.run(bench.again(job))
    assert.deepEqual(await sql("SELECT count(*) FROM entangled WHERE t = 'x'"), ['3'])
  })
})

describe('a MySQL server that is full', { skip: absence !== null }, () => {
  let server: MariadbServer
  let bench: RunBench
  before(async () => {
    if (absence !== null) return
    // Rows of a checkpoint are collected in temporary tables, whose file has an end here.
    server = await startServer({ innodb_temp_data_file_path: 'ibtmp1:12M:autoextend:max:14M' })
    bench = await openRunBench()
  })
  after(async () => {
    await bench?.close()
    await server?.stop()
  })

  for (const write of ['append', 'replace', 'upsert'] as const)
    it(`says so, shows nothing of ${write}, and takes it once there is room`, async () => {
      const database = await server.createDatabase()
      const sql = (text: string): Promise<string[]> => server.sql(text, database)
      const destination = { name: 'mysql', config: { ...settingsOf(server, database), table: 'target' } }
      const lines = Array.from({ length: 8000 }, (_, id) => `{"id":${id},"t":"${'y'.repeat(3000)}"}`)
      const primary_key = write === 'upsert' ? ['id'] : []
      const job = bench.job({
        source: lineSource(lines, { pageRecords: 100 }),
        destination,
        sync: { write, primary_key },
      })
      const error = await failureOf(bench.run(job, { checkpointRecords: 8000 }))
      assert.match(error.message, / is full; make room there/)
      assert.deepEqual([error.kind, error.transient], ['destination', true])
      const [rows = '0'] = await sql('SELECT count(*) FROM target').catch(() => ['0'])
      assert.equal(rows, '0')
      await bench.run(bench.again(job), { checkpointRecords: 1000 })
      assert.deepEqual(await sql('SELECT count(*), count(DISTINCT id) FROM target'), ['8000\t8000'])
    })
})
