/**
 * mysql → postgres and postgres → mysql beside the fastest bare way over the same rows on the same servers, medians of
 * three in one go. Needs mariadbd (Debian: mariadb-server). Every run is a process of its own, so that its peak memory is
 * its own too.
 *
 *   node bench/mysql.ts                  half a million rows of nine mixed columns
 *   node bench/mysql.ts --rows 5000000   five million: memory must stay what it was
 *
 * The bare ways: reading is SELECT … INTO OUTFILE, which is what mysqldump --tab does, and COPY of that file into
 * PostgreSQL; the slower of the two is what a pipe of both could reach. Writing is LOAD DATA of that file alone.
 */
import './lib/help.ts'
import { fork } from 'node:child_process'
import { createReadStream, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import copyStreams from 'pg-copy-streams'
import { findAbsence, type MariadbServer, startServer as startMariadb } from '../server/test/harness/mariadb-server.ts'
import { type PostgresServer, startServer as startPostgres } from '../server/test/harness/postgres-server.ts'
import { openRunBench } from '../server/test/harness/run-bench.ts'
import { median, report } from './lib/figures.ts'

interface Task {
  source: { name: string; stream: string; config: Record<string, unknown> }
  destination: { name: string; config: Record<string, unknown> }
}

interface Figure {
  ms: number
  peakMb: number
}

const columns =
  'id bigint, name longtext, email longtext, amount decimal(12,2), quantity int, created_at datetime, day date, payload longtext, note longtext'
const postgresColumns =
  'id int8, name text, email text, amount numeric(12,2), quantity int4, created_at timestamp, day date, payload jsonb, note text'
const select = `SELECT seq, concat('user ', seq), concat('user', seq, '@example.com'), (seq % 10000000) / 100, seq % 1000,
  timestamp'2024-01-01 00:00:00' + INTERVAL seq % 30000000 SECOND, date'2000-01-01' + INTERVAL seq % 9000 DAY,
  concat('{"n":', seq, ',"tags":["x","y"]}'), IF(seq % 10 = 0, NULL, md5(seq))`

/** As the worker starts its executors. */
const executorFlags = ['--max-old-space-size=512', '--max-semi-space-size=8']

/** In the measuring process. */
async function measure(task: Task): Promise<Figure> {
  const bench = await openRunBench()
  const began = performance.now()
  await bench.run(bench.job({ ...task, sync: { write: 'replace' } }))
  const ms = performance.now() - began
  await bench.close()
  const peakMb = Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024
  return { ms, peakMb }
}

function measureApart(task: Task): Promise<Figure> {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(import.meta.url), [], {
      execArgv: executorFlags,
      env: { ...process.env, MYSQL_TASK: JSON.stringify(task) },
    })
    child.once('message', (figure) => resolve(figure as Figure))
    child.once('exit', (code) => reject(new Error(`the measurement ended with code ${code}`)))
  })
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}

/** The times of both bare ways, and the file in between. */
async function measureBare(folder: string, mysql: MariadbServer, postgres: PostgresServer, time: number) {
  const file = path.join(folder, `rows-${time}.tsv`)
  const read = await timed(() => mysql.sql(`SELECT * FROM mixed INTO OUTFILE '${file}'`, 'test_1'))
  const client = await postgres.connect('postgres')
  await client.query(`DROP TABLE IF EXISTS bare; CREATE TABLE bare (${postgresColumns})`)
  const copy = await timed(() =>
    pipeline(
      createReadStream(file, { highWaterMark: 256 * 1024 }),
      client.query(copyStreams.from('COPY bare FROM STDIN')),
    ),
  )
  await mysql.sql(`DROP TABLE IF EXISTS bare; CREATE TABLE bare (${columns}) CHARACTER SET utf8mb4`, 'test_1')
  const load = await timed(() =>
    mysql.sql(`LOAD DATA LOCAL INFILE '${file}' INTO TABLE bare CHARACTER SET utf8mb4`, 'test_1'),
  )
  return { read, copy, load }
}

async function compare(): Promise<void> {
  const { values } = parseArgs({
    options: { rows: { type: 'string', default: '500000' }, times: { type: 'string', default: '3' } },
  })
  const rows = Number(values.rows)
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-mysql-'))
  const mysql = await startMariadb({ innodb_buffer_pool_size: '512M' })
  const postgres = await startPostgres({ fsync: 'on', shared_buffers: '512MB', max_wal_size: '8GB' })
  try {
    const database = await mysql.createDatabase()
    await mysql.sql(
      `CREATE TABLE mixed (${columns}) CHARACTER SET utf8mb4; INSERT INTO mixed ${select} FROM seq_1_to_${rows}`,
      database,
    )
    const { host, port, user, password } = mysql
    const own = { host, port, user, password, database, tls: { mode: 'disable' } }
    const other = { url: postgres.url() }
    const tasks: Record<'out' | 'in', Task> = {
      out: {
        source: { name: 'mysql', stream: 'mixed', config: own },
        destination: { name: 'postgres', config: { ...other, table: 'mixed' } },
      },
      in: {
        source: { name: 'postgres', stream: 'public.mixed', config: other },
        destination: { name: 'mysql', config: { ...own, table: 'returned' } },
      },
    }
    const bare: Awaited<ReturnType<typeof measureBare>>[] = []
    const ours: Record<'out' | 'in', Figure[]> = { out: [], in: [] }
    for (let time = 0; time < Number(values.times); time += 1) {
      bare.push(await measureBare(folder, mysql, postgres, time))
      ours.out.push(await measureApart(tasks.out))
      ours.in.push(await measureApart(tasks.in))
    }
    const of = (what: 'read' | 'copy' | 'load'): number => median(bare.map((each) => each[what]))
    const print = (title: string, taken: Figure[], bareMs: number, more: Record<string, number>): void => {
      const ms = median(taken.map((figure) => figure.ms))
      const peak_mb = Math.round(Math.max(...taken.map((figure) => figure.peakMb)))
      report(
        title,
        { ratio: bareMs / ms, rows_per_second: Math.round(rows / (ms / 1000)), ...more, peak_mb },
        'ratio at least 0.7, at most 256 MB',
      )
    }
    print('mysql → postgres', ours.out, Math.max(of('read'), of('copy')), {
      outfile_ms: of('read'),
      copy_ms: of('copy'),
    })
    print('postgres → mysql', ours.in, of('load'), { load_data_ms: of('load') })
  } finally {
    await mysql.stop()
    await postgres.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

const absence = findAbsence()
if (absence !== null) console.log(`mysql is not measured: ${absence}`)
else if (process.env.MYSQL_TASK) {
  process.send!(await measure(JSON.parse(process.env.MYSQL_TASK) as Task))
  process.disconnect()
} else await compare()
