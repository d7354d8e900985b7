/** Runs per second of real workers: processes of `sluice worker`, with executors that read one record and write it to a file. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type Database, sql } from '../../server/src/database/database.ts'
import { wakeWorkers } from '../../server/src/database/notifications.ts'
import { median, report } from './figures.ts'
import { type BenchDatabase, commits, fillQueue, makePipelines, postmasterOf } from './many-workers.ts'
import { MAIN } from './platform.ts'
import { cpuOfTree, ownCpuOf } from './processes.ts'

const SECRET = 'x'.repeat(32)
/** Rounds that come before: executors are up, and what they run is compiled. */
const WARM_RUNS = 1000

interface Round {
  perSecond: number
  /** Milliseconds per run of the database, the workers and their executors. */
  database: number
  worker: number
  executors: number
  commits: number
}

export const measureRealWorkers =
  (counts: number[], { times, drain }: { times: number; drain: number }) =>
  async ({ db, connection, folder }: BenchDatabase): Promise<void> => {
    await makePipelines(db)
    const address = new URL('postgres://localhost')
    address.username = connection.user!
    address.password = connection.password as string
    address.searchParams.set('host', connection.host!)
    address.pathname = `/${connection.database}`
    for (const count of counts) {
      const workers = Array.from({ length: count }, (_, index) => {
        const own = path.join(folder, `worker-${count}-${index}`)
        mkdirSync(own)
        return startWorker(address.href, own, path.join(folder, 'blobs'))
      })
      try {
        await untilListening(db, count)
        await measureOnce(db, folder, workers, WARM_RUNS)
        const rounds: Round[] = []
        for (let round = 0; round < times; round++) rounds.push(await measureOnce(db, folder, workers, drain))
        const of = (field: keyof Round) => median(rounds.map((round) => round[field]))
        report(
          `${count} real workers`,
          {
            runs_per_second: of('perSecond'),
            least: Math.min(...rounds.map((round) => round.perSecond)),
            database_cpu_ms_per_run: of('database'),
            workers_cpu_ms_per_run: of('worker'),
            executors_cpu_ms_per_run: of('executors'),
            commits_per_run: of('commits'),
          },
          '>= 250 a second',
        )
      } finally {
        await Promise.all(workers.map(stop))
      }
    }
  }

const startWorker = (database: string, folder: string, blobs: string): ChildProcess =>
  spawn(process.execPath, [MAIN, 'worker'], {
    env: {
      PATH: process.env.PATH!,
      DATABASE_URL: database,
      JWT_SECRET_KEY: SECRET,
      ENCRYPTION_KEY: SECRET,
      DATA_DIR: folder,
      BLOB_URL: `file://${blobs}`,
      LOG_LEVEL: 'warn',
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })

async function stop(worker: ChildProcess): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null) return
  const ended = once(worker, 'exit')
  worker.kill('SIGTERM')
  await ended
}

async function untilListening(db: Database, count: number): Promise<void> {
  for (let looks = 0; looks < 600; looks++) {
    const row = await db.first<{ count: number }>(sql`SELECT count(*) FROM listening_workers`)
    if (row!.count >= count) return
    await delay(100)
  }
  throw new Error(`after a minute not all of ${count} workers listen`)
}

async function measureOnce(db: Database, folder: string, workers: ChildProcess[], runs: number): Promise<Round> {
  const postmaster = postmasterOf(folder)
  const cpu = () => ({
    database: cpuOfTree(postmaster),
    all: workers.reduce((sum, { pid }) => sum + cpuOfTree(pid!), 0),
    worker: workers.reduce((sum, { pid }) => sum + ownCpuOf(pid!), 0),
  })
  await fillQueue(db, SECRET, runs)
  const [before, commitsBefore, began] = [cpu(), await commits(db), performance.now()]
  await db.execute(wakeWorkers(runs))
  let looks = 2
  while (await db.first(sql`SELECT FROM runs WHERE status IN ('pending', 'running') LIMIT 1`)) {
    looks++
    await delay(50)
  }
  const seconds = (performance.now() - began) / 1000
  const after = cpu()
  const failed = await db.first<{ error: string }>(sql`SELECT error FROM runs WHERE status = 'failed' LIMIT 1`)
  if (failed) throw new Error(`a run failed: ${failed.error}`)
  const made = (await commits(db)) - commitsBefore - looks - 1
  const each = (hundredths: number) => (hundredths * 10) / runs
  return {
    perSecond: runs / seconds,
    database: each(after.database - before.database),
    worker: each(after.worker - before.worker),
    executors: each(after.all - after.worker - (before.all - before.worker)),
    commits: made / runs,
  }
}
