/**
 * The engine: trigger to running, runs per second compared with a bare claim and finish, schedules that are due at once,
 * memory of a long run, and memory and CPU of the idle platform.
 *
 *   npm run bench:runs                 all of it, some two minutes
 *   npm run bench:runs -- start idle   some of it
 */
import './lib/help.ts'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { measureBareQueue } from './lib/bare-queue.ts'
import { percentile, report } from './lib/figures.ts'
import { type Platform, startPlatform } from './lib/platform.ts'
import { commandOf, cpuOf, memoryOf, tree } from './lib/processes.ts'

const parts: Record<string, (platform: Platform) => Promise<void>> = {
  start,
  cancel,
  fairness,
  throughput,
  schedules,
  memory,
  idle,
}
const dummyToFile = (records: number, extra: Record<string, unknown> = {}) => ({
  name: 'bench',
  source: { name: 'dummy', stream: 'creatures', config: { records, ...extra } },
  destination: { name: 'file', config: {} },
})

/** From trigger to running, in milliseconds, of sequential runs. */
async function measureWaits(
  { api, db }: Platform,
  token: string,
  pipelineId: string,
  times: number,
): Promise<number[]> {
  const waits: number[] = []
  for (let index = 0; index < times; index++) {
    const run = await api.create(token, `/api/pipelines/${pipelineId}/run`)
    await api.untilFinished(token, run.id)
    const [row] = await db.query<{ ms: number }>(
      'SELECT extract(epoch FROM started_at - created_at)::float8 * 1000 AS ms FROM runs WHERE id = $1',
      [run.id],
    )
    waits.push(row!.ms)
  }
  return waits
}

async function start(platform: Platform): Promise<void> {
  const { api } = platform
  const token = await api.register()
  const pipeline = await api.create(token, '/api/pipelines', { name: 'start', config: dummyToFile(10) })
  const waits = (await measureWaits(platform, token, pipeline.id, 60)).slice(10)
  report(
    'trigger to running, warm',
    { p50_ms: percentile(waits, 50), p95_ms: percentile(waits, 95) },
    'p50 < 20 ms, p95 < 60 ms',
  )
}

/** From the request to the exit of the executor that had the run. */
async function cancel({ api, db, pid }: Platform): Promise<void> {
  const token = await api.register()
  const pipeline = await api.create(token, '/api/pipelines', {
    name: 'cancel',
    config: dummyToFile(100_000, { delay_ms: 1 }),
  })
  const gone: number[] = []
  for (let index = 0; index < 30; index++) {
    const run = await api.create(token, `/api/pipelines/${pipeline.id}/run`)
    for (;;) {
      const [row] = await db.query<{ records_read: number }>('SELECT records_read FROM runs WHERE id = $1', [run.id])
      if (Number(row!.records_read) > 0) break
      await delay(20)
    }
    const before = executors(pid)
    const began = performance.now()
    await api.create(token, `/api/pipelines/runs/${run.id}/cancel`)
    while (before.every((one) => executors(pid).includes(one))) await delay(2)
    gone.push(performance.now() - began)
  }
  report('cancel to process gone', { p50_ms: percentile(gone, 50), p95_ms: percentile(gone, 95) }, 'p95 < 500 ms')
}

/**
 * One organization has a long run, a second run waiting for it and 10,000 more; another organization triggers a single
 * one.
 */
async function fairness(platform: Platform): Promise<void> {
  const { api, db } = platform
  const busy = await api.register()
  const long = await api.create(busy, '/api/pipelines', {
    name: 'long',
    config: dummyToFile(100_000, { delay_ms: 10 }),
  })
  const first = await api.create(busy, `/api/pipelines/${long.id}/run`)
  await api.create(busy, `/api/pipelines/${long.id}/run`)
  await db.query(
    `INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, config_box)
     SELECT organization_id, pipeline_id, 'manual', false, config_box FROM runs CROSS JOIN generate_series(1, 10000) WHERE id = $1`,
    [first.id],
  )
  const other = await api.register()
  const single = await api.create(other, '/api/pipelines', { name: 'single', config: dummyToFile(1) })
  const waits = await measureWaits(platform, other, single.id, 20)
  report(
    'beside 10,000 waiting runs of another',
    { p50_ms: percentile(waits, 50), max_ms: Math.max(...waits) },
    '< 100 ms',
  )
  await db.query(`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE status = 'pending'`, [])
  await api.create(busy, `/api/pipelines/runs/${first.id}/cancel`)
}

async function throughput({ api, db }: Platform): Promise<void> {
  const RUNS = 1000
  const ORGANIZATIONS = 10
  const tokens = await Promise.all(Array.from({ length: ORGANIZATIONS }, () => api.register()))
  const pipelines = await Promise.all(
    tokens.flatMap((token) =>
      Array.from({ length: 10 }, async (_, index) => ({
        token,
        pipeline: await api.create(token, '/api/pipelines', { name: `p${index}`, config: dummyToFile(10) }),
      })),
    ),
  )
  // Warm: as many executors are up as runs execute concurrently, as on a busy platform.
  const warm = await Promise.all(
    pipelines.slice(0, 40).map(({ token, pipeline }) => api.create(token, `/api/pipelines/${pipeline.id}/run`)),
  )
  await Promise.all(warm.map((run, index) => api.untilFinished(pipelines[index]!.token, run.id)))
  const began = performance.now()
  const each = RUNS / pipelines.length
  await Promise.all(
    pipelines.map(async ({ token, pipeline }) => {
      for (let index = 0; index < each; index++) await api.create(token, `/api/pipelines/${pipeline.id}/run`)
    }),
  )
  for (;;) {
    const [row] = await db.query<{ left: number }>(
      `SELECT count(*)::int AS left FROM runs WHERE status IN ('pending', 'running')`,
      [],
    )
    if (row!.left === 0) break
    await delay(20)
  }
  const seconds = (performance.now() - began) / 1000
  const [bad] = await db.query<{ failed: number }>(
    `SELECT count(*)::int AS failed FROM runs WHERE status <> 'success'`,
    [],
  )
  const bare = await measureBareQueue(db)
  report(
    '1,000 no-op runs of ten organizations',
    {
      runs_per_second: RUNS / seconds,
      bare_per_second: bare,
      ratio: RUNS / seconds / bare,
      not_successful: bad!.failed,
    },
    '>= 100 a second, >= 0.1 of bare',
  )
}

async function schedules({ api, db }: Platform): Promise<void> {
  const COUNT = 10_000
  const token = await api.register()
  const pipeline = await api.create(token, '/api/pipelines', {
    name: 'scheduled',
    config: dummyToFile(1),
    schedule: '0 0 1 1 *',
  })
  // Copies of one row could not be decrypted under other ids, so they are created through the API.
  await api.copyMany(token, pipeline.id, COUNT)
  await db.query(
    `UPDATE pipelines SET enabled = true, schedule = '0 0 1 1 *', next_run_at = NULL WHERE name LIKE 'scheduled%'`,
    [],
  )
  const began = performance.now()
  await db.query(`UPDATE pipelines SET next_run_at = now() WHERE name LIKE 'scheduled%'`, [])
  const marked = performance.now()
  for (;;) {
    const [row] = await db.query<{ due: number }>(
      `SELECT count(*)::int AS due FROM pipelines WHERE enabled AND next_run_at <= now()`,
      [],
    )
    if (row!.due === 0) break
    await delay(20)
  }
  report(
    '10,000 schedules due at once',
    { seconds: (performance.now() - marked) / 1000, marking_seconds: (marked - began) / 1000 },
    '< 5 s',
  )
  await db.query(
    `UPDATE runs SET status = 'cancelled', finished_at = now(), ready = false WHERE status = 'pending'`,
    [],
  )
}

async function memory({ api, pid }: Platform): Promise<void> {
  const peak = async (records: number): Promise<{ mb: number; seconds: number }> => {
    const token = await api.register()
    const pipeline = await api.create(token, '/api/pipelines', { name: 'memory', config: dummyToFile(records) })
    const began = performance.now()
    const run = await api.create(token, `/api/pipelines/${pipeline.id}/run`)
    let most = 0
    const watch = setInterval(() => {
      most = Math.max(most, ...executors(pid).map((pid) => memoryOf(pid).rss))
    }, 20)
    await api.untilFinished(token, run.id)
    clearInterval(watch)
    return { mb: most, seconds: (performance.now() - began) / 1000 }
  }
  const small = await peak(100_000)
  const large = await peak(10_000_000)
  report(
    'dummy to file',
    {
      mb_100k: small.mb,
      mb_10m: large.mb,
      grows_mb: large.mb - small.mb,
      records_per_second: 10_000_000 / large.seconds,
    },
    'grows by at most 64 MB',
  )
}

/** A separate platform that has done nothing yet: what others left in memory does not count. */
async function idle(): Promise<void> {
  const own = mkdtempSync(path.join(tmpdir(), 'sluice-idle-'))
  const { pid, stop } = await startPlatform(own)
  await delay(40_000)
  const pids = tree(pid)
  const before = pids.map(cpuOf).reduce((a, b) => a + b, 0)
  await delay(10_000)
  const ticks = pids.map(cpuOf).reduce((a, b) => a + b, 0) - before
  report(
    'idle',
    {
      pss_mb: pids.map((one) => memoryOf(one).pss).reduce((a, b) => a + b, 0),
      cpu_percent: ticks / 10,
      processes: pids.length,
    },
    '< 300 MB PSS, < 1 % of a core',
  )
  await stop()
  rmSync(own, { recursive: true, force: true })
}

const executors = (root: number) => tree(root).filter((pid) => commandOf(pid).includes('executors/executor.ts'))

const wanted = process.argv.slice(2).filter((name) => name in parts)
const folder = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
const platform = await startPlatform(folder)
try {
  for (const name of wanted.length > 0 ? wanted : Object.keys(parts)) await parts[name]!(platform)
} finally {
  await platform.stop()
  rmSync(folder, { recursive: true, force: true })
}
