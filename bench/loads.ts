/**
 * The data path compared with a bare COPY by pg-copy-streams over the same rows on the same server, medians of three in one
 * run. Every measurement is a separate process, so that its peak memory is measured separately too.
 *
 *   npm run bench:loads                        one million rows of ten mixed columns, some two minutes
 *   npm run bench:loads -- --rows 10000000     ten million: memory must stay the same
 *   npm run bench:loads -- files tables        some of it
 */
import './lib/help.ts'
import { execFileSync, fork, spawnSync } from 'node:child_process'
import { createReadStream, createWriteStream, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import pg from 'pg'
import copyStreams from 'pg-copy-streams'
import type { Job } from '../server/src/engine/execute.ts'
import { startServer } from '../server/test/harness/postgres-server.ts'
import { openRunBench } from '../server/test/harness/run-bench.ts'
import { median, report } from './lib/figures.ts'

const columns = `id int8, name text, email text, amount numeric, quantity int8, active boolean, created_at timestamptz, day date, payload jsonb, note text`
const select = `SELECT g AS id, 'user ' || g AS name, 'user' || g || '@example.com' AS email, (g % 10000000)::numeric / 100 AS amount,
  g % 1000 AS quantity, g % 2 = 0 AS active, timestamptz '2024-01-01' + g * interval '1 second' AS created_at,
  date '2000-01-01' + (g % 9000)::int4 AS day, jsonb_build_object('n', g, 'tags', jsonb_build_array('x', 'y')) AS payload,
  CASE WHEN g % 10 = 0 THEN NULL ELSE md5(g::text) END AS note`

/** The task of a measuring process. */
interface Task {
  url: string
  folder: string
  measure: string
}

interface Figure {
  ms: number
  cpuMs: number
  peakMb: number
}

/** As the worker starts its executors. */
const executorFlags = ['--max-old-space-size=512', '--max-semi-space-size=8']

type Measure = (task: Task, client: pg.Client) => Promise<void>

const bare: Record<string, Measure> = {
  async lines({ folder }, client) {
    const rows = client.query(copyStreams.to('COPY (SELECT row_to_json(t) FROM mixed t) TO STDOUT'))
    await pipeline(rows, createWriteStream(path.join(folder, 'bare.jsonl')))
  },
  async tables({ url }, client) {
    const writer = new pg.Client(url)
    await writer.connect()
    await writer.query(`DROP TABLE IF EXISTS bare; CREATE TABLE bare (${columns})`)
    await pipeline(
      client.query(copyStreams.to('COPY mixed TO STDOUT')),
      writer.query(copyStreams.from('COPY bare FROM STDIN')),
    )
    await writer.end()
  },
  async files({ folder }, client) {
    await client.query(`DROP TABLE IF EXISTS bare; CREATE TABLE bare (${columns})`)
    const rows = createReadStream(path.join(folder, 'rows.csv'), { highWaterMark: 256 * 1024 })
    await pipeline(rows, client.query(copyStreams.from('COPY bare FROM STDIN (FORMAT csv)')))
  },
}

// The same as text: what is measured is how much faster than that it is.
bare.binary = bare.tables!

/** `psql | psql` in text form, where psql is installed. */
const psql: Record<string, Measure> = {
  async tables({ url }, client) {
    await client.query(`DROP TABLE IF EXISTS bare; CREATE TABLE bare (${columns})`)
    const [from, to] = ['COPY mixed TO STDOUT', 'COPY bare FROM STDIN'].map(
      (statement) => `psql -q "$URL" -c "${statement}"`,
    )
    execFileSync('sh', ['-c', `${from} | ${to}`], { env: { ...process.env, URL: url } })
  },
}
psql.binary = psql.tables!

const hasPsql = spawnSync('psql', ['--version']).status === 0

const source = (url: string) => ({ name: 'postgres', stream: 'public.mixed', config: { url } })
const target = (url: string) => ({ name: 'postgres', config: { url, schema: 'loaded', table: 'rows' } })

const ours: Record<string, Measure> = {
  lines: (task) => execute(task, source(task.url), { name: 'file' }),
  tables: (task) => execute(task, source(task.url), target(task.url)),
  binary: (task) => execute(task, source(task.url), target(task.url), { keep_output: false }),
  files: (task) => execute(task, { name: 'file', stream: 'rows', config: { run_id: runId } }, target(task.url)),
}

const runId = '00000000-0000-4000-8000-0000000000aa'

async function execute(
  task: Task,
  from: { name: string; stream: string; config: Record<string, unknown> },
  to: { name: string; config?: Record<string, unknown> },
  overrides: Partial<Job> = {},
): Promise<void> {
  const bench = await openRunBench()
  const rowsFile = path.join(task.folder, 'rows.jsonl')
  const outputs = { [runId]: [{ key: 'rows.jsonl', size: statSync(rowsFile).size }] }
  const blobs = {
    ...bench.blobs,
    read: async (key: string, range?: { start: number; end: number }) =>
      key === 'rows.jsonl'
        ? Readable.from(createReadStream(rowsFile, { highWaterMark: 256 * 1024, ...range }))
        : bench.blobs.read(key, range),
  }
  await bench.run(bench.job({ source: from, destination: to }, { outputs, ...overrides }), { blobs })
  await bench.close()
}

type Whose = 'bare' | 'ours' | 'psql'

/** In the measuring process. */
async function measure(task: Task): Promise<Figure> {
  const [whose, what] = task.measure.split(' ') as [Whose, string]
  const client = new pg.Client(task.url)
  await client.connect()
  const began = performance.now()
  await { bare, ours, psql }[whose][what]!(task, client)
  const ms = performance.now() - began
  const { user, system } = process.cpuUsage()
  await client.end()
  const peakMb = Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024
  return { ms, cpuMs: (user + system) / 1000, peakMb }
}

function measureApart(task: Task): Promise<Figure> {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(import.meta.url), [], {
      execArgv: executorFlags,
      env: { ...process.env, LOADS_TASK: JSON.stringify(task) },
    })
    child.once('message', (figure) => resolve(figure as Figure))
    child.once('exit', (code) => reject(new Error(`the measurement ended with code ${code}`)))
  })
}

const wanted: Record<string, { title: string; least: number }> = {
  lines: { title: 'postgres → file jsonl', least: 0.95 },
  tables: { title: 'postgres → postgres, output kept', least: 0.8 },
  binary: { title: 'postgres → postgres, no output kept', least: 1 },
  files: { title: 'file jsonl → postgres, typed', least: 0.7 },
}

async function compare(): Promise<void> {
  const { values, positionals } = parseArgs({
    options: { rows: { type: 'string', default: '1000000' }, times: { type: 'string', default: '3' } },
    allowPositionals: true,
  })
  const rows = Number(values.rows)
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-loads-'))
  const server = await startServer({ fsync: 'on', shared_buffers: '512MB', max_wal_size: '8GB' })
  try {
    const client = await server.connect('postgres')
    await client.query(`CREATE TABLE mixed (${columns})`)
    await client.query(`INSERT INTO mixed ${select} FROM generate_series(1, ${rows}::int8) g`)
    await client.query('ALTER TABLE mixed ADD PRIMARY KEY (id)')
    await client.query('VACUUM ANALYZE mixed')
    await pipeline(
      client.query(copyStreams.to('COPY mixed TO STDOUT (FORMAT csv)')),
      createWriteStream(path.join(folder, 'rows.csv')),
    )
    const json = `COPY (SELECT row_to_json(t) FROM mixed t) TO STDOUT (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')`
    await pipeline(client.query(copyStreams.to(json)), createWriteStream(path.join(folder, 'rows.jsonl')))
    for (const [what, { title, least }] of Object.entries(wanted)) {
      if (positionals.length > 0 && !positionals.includes(what)) continue
      const taken: Record<Whose, Figure[]> = { bare: [], ours: [], psql: [] }
      for (let time = 0; time < Number(values.times); time += 1) {
        for (const whose of ['bare', 'ours', 'psql'] as const) {
          if (whose === 'psql' && !(hasPsql && what in psql)) continue
          taken[whose].push(await measureApart({ url: server.url(), folder, measure: `${whose} ${what}` }))
        }
      }
      const bareMs = median(taken.bare.map(({ ms }) => ms))
      const oursMs = median(taken.ours.map(({ ms }) => ms))
      report(
        title,
        {
          ratio: bareMs / oursMs,
          ...(taken.psql.length > 0 && { of_psql: median(taken.psql.map(({ ms }) => ms)) / oursMs }),
          rows_per_second: Math.round(rows / (oursMs / 1000)),
          bare_rows_per_second: Math.round(rows / (bareMs / 1000)),
          cpu_seconds: median(taken.ours.map(({ cpuMs }) => cpuMs)) / 1000,
          peak_mb: Math.round(Math.max(...taken.ours.map(({ peakMb }) => peakMb))),
        },
        `ratio at least ${least}, at most 256 MB`,
      )
    }
  } finally {
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

if (process.env.LOADS_TASK) {
  process.send!(await measure(JSON.parse(process.env.LOADS_TASK) as Task))
  process.disconnect()
} else await compare()
