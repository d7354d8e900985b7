/** Runs claimed and finished per second by a number of simulated workers, and what the database takes for it. */
import { fork } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type ConnectionSettings, type Database, script, sql } from '../../server/src/database/database.ts'
import { createSecretBox } from '../../server/src/database/secret-box.ts'
import type { UsableConfig } from '../../server/src/runs/pinned-config.ts'
import { runPlace } from '../../server/src/runs/trigger.ts'
import { median, report } from './figures.ts'
import { cpuOfTree } from './processes.ts'
import type { SimulatedWorkers } from './simulated-workers.ts'

export interface BenchDatabase {
  db: Database
  connection: ConnectionSettings
  folder: string
}

const ORGANIZATIONS = 100
const PIPELINES = 1000
const PROCESSES = 2
/** Of one process; a real worker has three. */
const CONNECTIONS = 16
const ENTRY = new URL('./simulated-workers.ts', import.meta.url).pathname

const config: UsableConfig = {
  source: { name: 'dummy', stream: 'creatures', authentication: { type: 'none', params: {} }, config: { records: 1 } },
  destination: { name: 'file', config: {} },
  sync: {
    mode: 'full_refresh',
    write: 'append',
    cursor_field: null,
    primary_key: [],
    schema_change: 'evolve',
    lookback_seconds: 0,
    allow_empty: true,
  },
  columns: {},
  run: {},
}

export const measureWorkers =
  (counts: number[], { times, drain }: { times: number; drain: number }) =>
  async ({ db, connection, folder }: BenchDatabase): Promise<void> => {
    const key = randomBytes(32).toString('base64')
    const postmaster = postmasterOf(folder)
    await makePipelines(db)
    const settings = { connection, key, postmaster, runs: drain }
    await measureOnce(db, { ...settings, workers: 4 })
    for (const workers of counts) {
      const rounds: Awaited<ReturnType<typeof measureOnce>>[] = []
      for (let round = 0; round < times; round++) rounds.push(await measureOnce(db, { ...settings, workers }))
      report(
        `${workers} workers`,
        {
          runs_per_second: median(rounds.map((round) => round.perSecond)),
          least: Math.min(...rounds.map((round) => round.perSecond)),
          database_cpu_ms_per_run: median(rounds.map((round) => round.cpuMs)),
          database_cores: median(rounds.map((round) => round.cores)),
          commits_per_run: median(rounds.map((round) => round.commits)),
        },
        '>= 600 a second',
      )
    }
  }

export const postmasterOf = (folder: string): number =>
  Number(readFileSync(path.join(folder, 'postgres/postmaster.pid'), 'utf8').split('\n')[0])

export async function makePipelines(db: Database): Promise<void> {
  await db.execute(
    sql`INSERT INTO organizations (name, slug) SELECT 'o', 'o' || n FROM generate_series(1, ${ORGANIZATIONS}) n`,
  )
  await db.execute(sql`
    INSERT INTO pipelines (organization_id, name, config_box, stream)
    SELECT o.id, 'p', '\\x00', 's' FROM organizations o CROSS JOIN generate_series(1, ${PIPELINES / ORGANIZATIONS})`)
}

/** One run of each pipeline is ready, and the others wait for it. */
export async function fillQueue(db: Database, key: string, runs: number): Promise<void> {
  const box = createSecretBox([key])
  // What the last workers handed over when they were stopped.
  await db.execute(
    sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE status IN ('pending', 'running')`,
  )
  const pipelines = await db.query<{ id: string; organization_id: string }>(
    sql`SELECT id, organization_id FROM pipelines`,
  )
  // All at once: workers that already listen would begin before the others are there.
  await db.transaction(async (tx) => {
    for (let turn = 0; turn < runs / PIPELINES; turn++) {
      const ids = pipelines.map(() => randomUUID())
      const boxes = pipelines.map((p, index) => box.seal(runPlace(p.organization_id, ids[index]!), { config }))
      await tx.execute(sql`
        INSERT INTO runs (id, organization_id, pipeline_id, triggered_by, ready, config_box)
        SELECT u.id, u.organization_id, u.pipeline_id, 'schedule', ${turn === 0}, u.config_box
          FROM unnest(${ids}::uuid[], ${pipelines.map((p) => p.organization_id)}::uuid[], ${pipelines.map((p) => p.id)}::uuid[], ${boxes}::bytea[])
               AS u (id, organization_id, pipeline_id, config_box)`)
    }
  })
}

export const commits = async (db: Database): Promise<number> =>
  (await db.first<{ xact_commit: number }>(
    sql`SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()`,
  ))!.xact_commit

async function measureOnce(
  db: Database,
  {
    workers,
    postmaster,
    runs,
    ...shared
  }: Omit<SimulatedWorkers, 'connections'> & Record<'postmaster' | 'runs', number>,
): Promise<Record<'perSecond' | 'cpuMs' | 'cores' | 'commits', number>> {
  await fillQueue(db, shared.key, runs)
  await db.execute(script('VACUUM ANALYZE runs'))
  const processes = Math.min(PROCESSES, workers)
  const [cpuBefore, commitsBefore, began] = [cpuOfTree(postmaster), await commits(db), performance.now()]
  const children = Array.from({ length: processes }, (_, index) => {
    const child = fork(ENTRY)
    const own = Math.floor(workers / processes) + (index < workers % processes ? 1 : 0)
    child.send({ ...shared, workers: own, connections: Math.min(3 * own, CONNECTIONS) } satisfies SimulatedWorkers)
    return child
  })
  let looks = 1
  while (await db.first(sql`SELECT FROM runs WHERE status = 'pending' LIMIT 1`)) {
    looks++
    await delay(50)
  }
  const seconds = (performance.now() - began) / 1000
  const cpu = cpuOfTree(postmaster) - cpuBefore
  const made = (await commits(db)) - commitsBefore - looks
  await Promise.all(
    children.map((child) => {
      const gone = new Promise((resolve) => child.once('exit', resolve))
      child.send('stop')
      return gone
    }),
  )
  return { perSecond: runs / seconds, cpuMs: (cpu * 10) / runs, cores: cpu / 100 / seconds, commits: made / runs }
}
