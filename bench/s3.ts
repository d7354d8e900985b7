/**
 * A file to Parquet, in a bucket and as the output of a run, compared with DuckDB alone that reads the same file and writes one
 * Parquet file to the local disk, medians of three in one run. Every measurement is a separate process, so that its peak memory is measured
 * separately too. The bucket is versitygw where it is installed, else the test server of this project; both are on the same
 * machine and share its cores with the run.
 *
 *   npm run bench:s3                        one million rows of ten mixed columns
 *   npm run bench:s3 -- --rows 10000000     ten million: memory must stay the same
 *   npm run bench:s3 -- jsonl               some of it; also csv, file
 */
import './lib/help.ts'
import { fork } from 'node:child_process'
import { createReadStream, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { runBareQuery } from '../server/test/harness/bare-duckdb.ts'
import { openRunBench } from '../server/test/harness/run-bench.ts'
import { startS3Server } from '../server/test/harness/s3-server.ts'
import { findVersityGateway, startVersityGateway } from '../server/test/harness/versitygw.ts'
import { median, report } from './lib/figures.ts'

const select = (rows: number): string => `SELECT g AS id, 'user ' || g AS name, 'user' || g || '@example.com' AS email,
  ((g % 10000000) / 100)::DECIMAL(12,2) AS amount, g % 1000 AS quantity, g % 2 = 0 AS active,
  strftime(TIMESTAMP '2024-01-01' + to_seconds(g), '%Y-%m-%dT%H:%M:%SZ') AS created_at,
  strftime(DATE '2000-01-01' + (g % 9000)::INTEGER, '%Y-%m-%d') AS day, 'city ' || g % 500 AS city,
  CASE WHEN g % 10 = 0 THEN NULL ELSE md5(g::VARCHAR) END AS note FROM range(1, ${rows + 1}) AS t(g)`

interface Task {
  folder: string
  measure: string
  config: Record<string, unknown>
  rows: number
}

interface Figure {
  ms: number
  cpuMs: number
  peakMb: number
}

/** As the worker starts its executors. */
const executorFlags = ['--max-old-space-size=512', '--max-semi-space-size=8']
const runId = '00000000-0000-4000-8000-0000000000aa'

async function bare(format: string, folder: string, threads?: number): Promise<void> {
  const read = format === 'jsonl' ? `read_json('${folder}/rows.jsonl')` : `read_csv('${folder}/rows.csv')`
  await runBareQuery(`COPY (SELECT * FROM ${read}) TO '${folder}/bare.parquet' (FORMAT parquet)`, threads)
}

async function ours(format: string, to: string, { folder, config, rows }: Task): Promise<void> {
  const bench = await openRunBench()
  const file = path.join(folder, `rows.${format}`)
  const blobs = {
    ...bench.blobs,
    read: async (key: string, range?: { start: number; end: number }) =>
      key === 'rows'
        ? Readable.from(createReadStream(file, { highWaterMark: 256 * 1024, ...range }))
        : bench.blobs.read(key, range),
  }
  const source = { name: 'file', stream: 'rows', config: { run_id: runId, format } }
  const destination =
    to === 'file'
      ? { name: 'file', config: { format: 'parquet' } }
      : { name: 's3', config: { ...config, format: 'parquet', prefix: `${process.pid}/` } }
  const outputs = { [runId]: [{ key: 'rows', size: statSync(file).size }] }
  const { records_read } = await bench.run(bench.job({ source, destination }, { outputs }), { blobs })
  if (records_read !== rows) throw new Error(`${records_read} rows were read, not ${rows}`)
  await bench.close()
}

/** In the measuring process. */
async function measure(task: Task): Promise<Figure> {
  const [whose, format, to] = task.measure.split(' ') as [string, string, string]
  const before = process.cpuUsage()
  const began = performance.now()
  if (whose === 'ours') await ours(format, to, task)
  else await bare(format, task.folder, whose === 'thread' ? 1 : undefined)
  const ms = performance.now() - began
  const peakMb = Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024
  const { user, system } = process.cpuUsage(before)
  return { ms, cpuMs: (user + system) / 1000, peakMb }
}

function measureApart(task: Task): Promise<Figure> {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(import.meta.url), [], {
      execArgv: executorFlags,
      env: { ...process.env, S3_TASK: JSON.stringify(task) },
    })
    child.once('message', (figure) => resolve(figure as Figure))
    child.once('exit', (code) => reject(new Error(`the measurement ended with code ${code}`)))
  })
}

const wanted = [
  { format: 'jsonl', to: 's3', least: 0.6 },
  { format: 'csv', to: 's3', least: 0.8 },
  { format: 'csv', to: 'file', least: 0.8 },
  { format: 'jsonl', to: 'file', least: 0.6 },
]

async function compare(): Promise<void> {
  const { values, positionals } = parseArgs({
    options: { rows: { type: 'string', default: '1000000' }, times: { type: 'string', default: '3' } },
    allowPositionals: true,
  })
  const rows = Number(values.rows)
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-s3-bench-'))
  const gateway = findVersityGateway()
  const server = 'command' in gateway ? await startVersityGateway(gateway.command) : await startS3Server()
  console.log(`bucket: ${'command' in gateway ? 'versitygw' : 'the test server of this project'}`)
  try {
    await runBareQuery(`COPY (${select(rows)}) TO '${folder}/rows.jsonl' (FORMAT json)`)
    await runBareQuery(`COPY (${select(rows)}) TO '${folder}/rows.csv' (FORMAT csv, HEADER)`)
    const { bucket, endpoint, region, accessKeyId, secretAccessKey } = server
    const config = { bucket, endpoint, region, access_key_id: accessKeyId, secret_access_key: secretAccessKey }
    for (const { format, to, least } of wanted) {
      if (!positionals.every((name) => name === format || name === to)) continue
      const taken: Record<string, Figure[]> = { bare: [], thread: [], ours: [] }
      for (let time = 0; time < Number(values.times); time += 1)
        for (const whose of Object.keys(taken))
          taken[whose]!.push(await measureApart({ folder, config, rows, measure: `${whose} ${format} ${to}` }))
      const ms = (whose: string): number => median(taken[whose]!.map((figure) => figure.ms))
      report(
        `file ${format} → ${to} parquet`,
        {
          ratio: ms('bare') / ms('ours'),
          ratio_to_one_thread: ms('thread') / ms('ours'),
          // Steadier than the ratio of times where others use the machine too.
          ratio_of_cpu: median(taken.bare!.map(({ cpuMs }) => cpuMs)) / median(taken.ours!.map(({ cpuMs }) => cpuMs)),
          rows_per_second: Math.round(rows / (ms('ours') / 1000)),
          peak_mb: Math.round(Math.max(...taken.ours!.map(({ peakMb }) => peakMb))),
        },
        `ratio at least ${least}, at most 256 MB`,
      )
    }
  } finally {
    await server.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

if (process.env.S3_TASK) {
  process.send!(await measure(JSON.parse(process.env.S3_TASK) as Task))
  process.disconnect()
} else await compare()
