/** Builds the cluster, lets the faults happen, closes the books and says what was found. */
import { readdirSync, readFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createRandom } from '../../server/test/chaos/chaos.ts'
import { runSluice } from '../../server/test/harness/service.ts'
import { describeMachine } from '../failover/cluster.ts'
import { type Faults, LEASE_SECONDS, makeFaults } from './faults.ts'
import { makeFlows } from './flows.ts'
import { closeBooks, type Finding, untilFinished, watchCommits } from './ledger.ts'
import { beginLoad, createPipelines, finishFlow, type Load, signUp, triggerFor } from './load.ts'
import { makeNetwork } from './network.ts'
import { findExecutors, type Role, startRole } from './roles.ts'
import { makeObjectStore, makePostgres } from './servers.ts'

const ROLES = ['api', 'api', 'worker', 'worker', 'worker', 'scheduler', 'scheduler'] as const

export interface Options {
  folder: string
  minutes: number
  seed: number
}

/** Returns the exit code. */
export async function proveCluster({ folder, minutes, seed }: Options): Promise<number> {
  const began = Date.now()
  const say = (line: string) => console.log(`${((Date.now() - began) / 1000).toFixed(1).padStart(7)} s  ${line}`)
  const random = createRandom(seed)
  const network = makeNetwork()
  const database = await makePostgres(network.add('database'), folder)
  const warehouse = await makePostgres(network.add('warehouse'), folder)
  const store = await makeObjectStore(network.add('store'), folder)
  console.log(
    `seed ${seed}, ${minutes} minutes, lease ${LEASE_SECONDS} s; ${describeMachine()}; objects in ${store.what}`,
  )
  const env = {
    DATABASE_URL: database.url,
    JWT_SECRET_KEY: 'x'.repeat(32),
    ENCRYPTION_KEY: 'x'.repeat(32),
    EGRESS_ALLOW: `${warehouse.machine.address}:5432`,
    RUN_LEASE_SECONDS: String(LEASE_SECONDS),
    RUN_CHECKPOINT_MS: '200',
    ORG_CONCURRENCY: '10',
    WORKER_CONCURRENCY: '4',
    DRAIN_SECONDS: '2',
    LOG_LEVEL: 'warn',
    ...store.env,
  }
  const migrated = await runSluice(['migrate'], { ...env, PATH: process.env.PATH ?? '' }).ended
  if (migrated.code !== 0) throw new Error(migrated.stderr)
  const counts = new Map<string, number>()
  const roles = ROLES.map((kind): Role => {
    const number = (counts.get(kind) ?? 0) + 1
    counts.set(kind, number)
    return startRole(kind, network.add(`${kind}-${number}`), folder, env)
  })
  const apis = roles.filter(({ kind }) => kind === 'api').map(({ machine }) => `http://${machine.address}:8080`)
  const client = await signUp(apis)
  const flows = makeFlows()
  await createPipelines(client, warehouse, flows)
  say(`${flows.length} pipelines`)
  const first = await Promise.all(flows.map((flow) => triggerFor(client, flow)))
  await untilFinished(database, say)
  await watchCommits(warehouse)

  const load = beginLoad(client, warehouse, flows, random)
  const faults = makeFaults({ roles, database, warehouse, store: store.server }, random, say)
  await delay(3000)
  await faults.rage(Date.now() + minutes * 60_000)
  await load.stop()
  say('the faults are over')
  const last = await Promise.all(flows.map((flow) => finishFlow(client, warehouse, flow)))
  await untilFinished(database, say)
  const acknowledged = [...first, ...load.acknowledged, ...last]
  say('closing the books')
  const findings = await closeBooks({ database, warehouse, client, flows, acknowledged, blows: faults.blows })
  findings.push(checkAnswers(load), await checkRemains(roles, { database, warehouse }), checkLogs(folder, roles))
  return report(findings, faults)
}

function checkAnswers({ refused, longestMs }: Load): Finding {
  const list = [...refused].sort((a, b) => b[1] - a[1])
  return {
    what: 'answers other than 201',
    figure: `${list.map(([what, count]) => `${count}× ${what}`).join('; ') || 'none'}; the longest wait was ${(longestMs / 1000).toFixed(1)} s`,
    problems: list.filter(([what]) => /^(4|500)/.test(what)).map(([what]) => what),
  }
}

/** Nothing is left when everything has stopped: no session, no lock, no process. */
async function checkRemains(
  roles: Role[],
  servers: Record<'database' | 'warehouse', Awaited<ReturnType<typeof makePostgres>>>,
): Promise<Finding> {
  const executors = () => roles.filter(({ kind }) => kind === 'worker').flatMap((role) => findExecutors(role.pid()))
  await Promise.all(roles.map((role) => role.stop()))
  const problems = executors().map((pid) => `the executor ${pid} is left`)
  const figures: string[] = []
  for (const [name, { pool }] of Object.entries(servers)) {
    const { rows } = await pool.query<{ sessions: number; locks: number }>(`
      SELECT (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name LIKE 'sluice%') AS sessions,
             (SELECT count(*)::int FROM pg_locks WHERE pid <> pg_backend_pid() AND locktype <> 'virtualxid') AS locks`)
    const { sessions, locks } = rows[0]!
    figures.push(`${name}: ${sessions} sessions, ${locks} locks`)
    if (sessions > 0 || locks > 0) problems.push(`${name} still has ${sessions} sessions and ${locks} locks`)
  }
  return { what: 'left after the end', figure: figures.join('; '), problems }
}

/** A process may end without a database, and say so; it may not crash. */
function checkLogs(folder: string, roles: Role[]): Finding {
  const logs = readdirSync(folder).filter((name) => /^(api|worker|scheduler)-\d\.log$/.test(name))
  const problems = logs.flatMap((name) =>
    readFileSync(path.join(folder, name), 'utf8')
      .split('\n')
      .filter((line) => /"level":"fatal"|^\s+at .*server\/src/.test(line))
      .slice(0, 3)
      .map((line) => `${name}: ${line.slice(0, 500)}`),
  )
  const crashes = roles.flatMap((role) => role.crashes)
  return { what: 'processes that ended by themselves', figure: `${crashes.length}, without a database`, problems }
}

function report(findings: Finding[], { counts }: Faults): number {
  console.log(`\nfaults: ${[...counts].map(([name, count]) => `${count}× ${name}`).join(', ')}`)
  console.log(`load average at the end: ${loadavg()[0]!.toFixed(1)}\n`)
  const width = Math.max(...findings.map(({ what }) => what.length))
  for (const { what, figure, problems } of findings) {
    console.log(`${problems.length === 0 ? 'ok   ' : 'WRONG'}  ${what.padEnd(width)}  ${figure}`)
    for (const problem of problems.slice(0, 5)) console.log(`       ${' '.repeat(width)}  → ${problem}`)
    if (problems.length > 5) console.log(`       ${' '.repeat(width)}  → and ${problems.length - 5} more`)
  }
  const wrong = findings.filter(({ problems }) => problems.length > 0).length
  console.log(wrong === 0 ? '\nEach record is there exactly once.' : `\n${wrong} findings are wrong.`)
  return wrong === 0 ? 0 : 1
}
