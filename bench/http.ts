/**
 * rest_api over a local server that answers with pages of 1,000 records, compared with a bare loop that requests the same
 * pages with undici, parses them and writes the same lines to a file. Medians of three; every measurement and the server are
 * processes of their own, so peak memory is measured separately. All share the cores of the machine.
 *
 *   npm run bench:http                        one million records
 *   npm run bench:http -- --rows 10000000     ten million: memory must stay the same
 */
import './lib/help.ts'
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { openRunBench } from '../server/test/harness/run-bench.ts'
import { median, report } from './lib/figures.ts'

const PAGE = 1000
/** Different pages that the server has; they come again and again. */
const PAGES = 16

interface Task {
  kind: 'server' | 'bare' | 'page_number' | 'cursor' | 'incremental'
  url: string
  rows: number
}

interface Figure {
  ms: number
  peakMb: number
  cpuMs: number
}

/** As the worker starts its executors. */
const executorFlags = ['--max-old-space-size=512', '--max-semi-space-size=8']

const record = (id: number): string =>
  `{"id":${id},"name":"user ${id}","email":"user${id}@example.com","amount":${(id % 1e7) / 100},"quantity":${id % 1000},` +
  `"active":${id % 2 === 0},"created_at":"2024-01-01T00:00:00Z","city":"city ${id % 500}","note":null}`

/** Answers from memory. */
async function serve(rows: number): Promise<string> {
  const pages = Array.from({ length: PAGES }, (_, page) =>
    Array.from({ length: PAGE }, (_, index) => record(page * PAGE + index + 1)).join(','),
  )
  const total = Math.ceil(rows / PAGE)
  const server = createServer((request, response) => {
    const page = Number(new URL(request.url!, 'http://x').searchParams.get('page') ?? 0)
    const next = page + 1 < total ? `,"next":${page + 1}` : ''
    response.end(page < total ? `{"data":[${pages[page % PAGES]}],"total":${total}${next}}` : '{"data":[]}')
  })
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function bare({ url, rows }: Task, folder: string): Promise<void> {
  const { request } = await import('undici')
  const file = createWriteStream(path.join(folder, 'rows.jsonl'))
  let written = 0
  for (let page = 0; ; page++) {
    const { body } = await request(`${url}/rows?page=${page}`)
    const { data } = (await body.json()) as { data: object[] }
    if (data.length === 0) break
    written += data.length
    const lines = data.map((each) => `${JSON.stringify(each)}\n`).join('')
    if (!file.write(lines)) await once(file, 'drain')
  }
  file.end()
  await once(file, 'close')
  if (written !== rows) throw new Error(`${written} rows were written, not ${rows}`)
}

const paginators = {
  page_number: { type: 'page_number' },
  cursor: { type: 'cursor', cursor_path: 'next', cursor_param: 'page' },
  incremental: { type: 'page_number' },
}

async function ours({ kind, url, rows }: Task): Promise<void> {
  const bench = await openRunBench()
  const incremental = kind === 'incremental' ? { incremental: { cursor_path: 'id', initial_value: 0 } } : {}
  const paginator = paginators[kind as keyof typeof paginators]
  const endpoint = { path: 'rows', data_selector: 'data', paginator, ...incremental }
  const config = { client: { base_url: url }, resources: [{ name: 'rows', endpoint }] }
  const source = { name: 'rest_api', stream: 'rows', config }
  const sync = kind === 'incremental' ? ({ mode: 'incremental', write: 'append' } as const) : {}
  const { records_read } = await bench.run(bench.job({ source, destination: { name: 'file' }, sync }))
  if (records_read !== rows) throw new Error(`${records_read} rows were read, not ${rows}`)
  await bench.close()
}

/** In the measuring process. */
async function measure(task: Task): Promise<Figure> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-http-bench-'))
  try {
    const began = performance.now()
    if (task.kind === 'bare') await bare(task, folder)
    else await ours(task)
    const ms = performance.now() - began
    const peakMb = Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024
    const { user, system } = process.cpuUsage()
    return { ms, peakMb, cpuMs: (user + system) / 1000 }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function start(task: Task): { child: ChildProcess; answer: Promise<unknown> } {
  const child = fork(fileURLToPath(import.meta.url), [], {
    execArgv: executorFlags,
    env: { ...process.env, HTTP_TASK: JSON.stringify(task) },
  })
  const answer = new Promise((resolve, reject) => {
    child.once('message', resolve)
    child.once('exit', (code) => reject(new Error(`the measurement ended with code ${code}`)))
  })
  return { child, answer }
}

async function compare(): Promise<void> {
  const { values } = parseArgs({
    options: { rows: { type: 'string', default: '1000000' }, times: { type: 'string', default: '3' } },
  })
  const rows = Number(values.rows)
  const server = start({ kind: 'server', url: '', rows })
  const url = (await server.answer) as string
  try {
    const taken: Record<string, Figure[]> = { bare: [], page_number: [], cursor: [], incremental: [] }
    for (let time = 0; time < Number(values.times); time += 1)
      for (const kind of Object.keys(taken))
        taken[kind]!.push((await start({ kind: kind as Task['kind'], url, rows }).answer) as Figure)
    const ms = (kind: string): number => median(taken[kind]!.map((figure) => figure.ms))
    const cpu = (kind: string): number => median(taken[kind]!.map((figure) => figure.cpuMs))
    for (const kind of Object.keys(paginators))
      report(
        `rest_api, ${kind} → file`,
        {
          ratio: ms('bare') / ms(kind),
          rows_per_second: Math.round(rows / (ms(kind) / 1000)),
          bare_rows_per_second: Math.round(rows / (ms('bare') / 1000)),
          ratio_of_cpu: cpu('bare') / cpu(kind),
          peak_mb: Math.round(Math.max(...taken[kind]!.map(({ peakMb }) => peakMb))),
        },
        'ratio at least 0.7, at most 256 MB',
      )
  } finally {
    server.child.kill()
  }
}

if (process.env.HTTP_TASK) {
  const task = JSON.parse(process.env.HTTP_TASK) as Task
  if (task.kind === 'server') process.send!(await serve(task.rows))
  else {
    process.send!(await measure(task))
    process.disconnect()
  }
} else await compare()
