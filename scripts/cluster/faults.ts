/** What happens to the cluster. All faults take turns in an order that the seed determines, again and again. */
import { execFile } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import { findExecutors, type Role, signal } from './roles.ts'
import type { Postgres, Server } from './servers.ts'

export const LEASE_SECONDS = 12
const LEASE_MS = LEASE_SECONDS * 1000

export interface World {
  roles: Role[]
  database: Postgres
  warehouse: Postgres
  store: Server | null
}

/** What was done to a worker, so that its runs may count as those of a lost one. */
export interface Blow {
  /** The process of the worker. */
  pid: number
  machine: string
  address: string
  from: number
  until: number
  what: 'killed' | 'stopped' | 'frozen' | 'cut off'
  /** The runs that it had. */
  runs: string[]
}

export interface Faults {
  counts: Map<string, number>
  blows: Blow[]
  /** Repeats all faults until the time is over. */
  rage(untilTime: number): Promise<void>
}

export function makeFaults(world: World, random: () => number, say: (line: string) => void): Faults {
  const { database, warehouse, store } = world
  const blows: Blow[] = []
  const counts = new Map<string, number>()
  const pick = <T>(all: T[]): T => all[Math.floor(random() * all.length)]!
  const roles = (kind: Role['kind']) => world.roles.filter((role) => role.kind === kind)
  const soon = () => random() * 2000

  /** A worker that has runs, if there is one. */
  const strikeWorker = async (what: Blow['what'], act: (worker: Role, blow: Blow) => Promise<unknown>) => {
    const held = await runsByWorker(database)
    const workers = roles('worker')
    const busy = workers.filter((worker) => held.has(worker.pid()))
    const worker = pick(busy.length > 0 ? busy : workers)
    const pid = worker.pid()
    const { name: machine, address } = worker.machine
    const blow: Blow = { pid, machine, address, from: Date.now(), until: 0, what, runs: held.get(pid) ?? [] }
    blows.push(blow)
    await act(worker, blow)
    blow.until = Date.now()
    return blow
  }
  /** The worker alone: its executors go on while others take their runs. With them: they wake up with open transactions. */
  const freeze = (withExecutors: boolean) =>
    strikeWorker('frozen', async (worker) => {
      const pid = worker.pid()
      const frozen = [pid, ...(withExecutors ? findExecutors(pid) : [])]
      for (const one of frozen) signal(one, 'SIGSTOP')
      await delay(LEASE_MS * 1.8)
      for (const one of frozen.reverse()) signal(one, 'SIGCONT')
    })
  const cutOff = (frozen: boolean) =>
    strikeWorker('cut off', async (worker, blow) => {
      const pid = worker.pid()
      worker.machine.cutFrom(database.machine)
      if (frozen) signal(pid, 'SIGSTOP')
      await delay(LEASE_MS * 1.8)
      const reached = await reaches(worker, warehouse)
      worker.machine.heal()
      if (frozen) signal(pid, 'SIGCONT')
      say(
        `${worker.machine.name} could ${reached ? '' : 'NOT '}reach the destination; ${await describeCommits(warehouse, blow)}`,
      )
    })
  const restart = async (kind: Role['kind'], how: 'SIGKILL' | 'SIGTERM') =>
    kind === 'worker'
      ? strikeWorker(how === 'SIGKILL' ? 'killed' : 'stopped', (worker) => worker.end(how, soon()))
      : pick(roles(kind)).end(how, soon())
  const outage = async (server: Server, end: () => Promise<void>) => {
    await end()
    await delay(soon())
    await server.start()
  }

  const all: [string, () => Promise<unknown>][] = [
    ['api killed', () => restart('api', 'SIGKILL')],
    ['worker killed', () => restart('worker', 'SIGKILL')],
    ['scheduler killed', () => restart('scheduler', 'SIGKILL')],
    [
      'executor killed',
      async () => {
        const executors = roles('worker').flatMap((worker) => findExecutors(worker.pid()))
        if (executors.length > 0) signal(pick(executors), 'SIGKILL')
      },
    ],
    ['database killed', () => outage(database, database.kill)],
    ['destination killed', () => outage(warehouse, warehouse.kill)],
    ...(store ? ([['store killed', () => outage(store, store.kill)]] as [string, () => Promise<unknown>][]) : []),
    ['api restarted', () => restart('api', 'SIGTERM')],
    ['worker restarted', () => restart('worker', 'SIGTERM')],
    ['scheduler restarted', () => restart('scheduler', 'SIGTERM')],
    ['database restarted', () => outage(database, database.stop)],
    [
      'everything restarted',
      async () => {
        for (const { kind, machine, end, pid } of world.roles) {
          if (kind === 'worker') {
            const { name, address } = machine
            const now = Date.now()
            blows.push({ pid: pid(), machine: name, address, from: now, until: now, what: 'stopped', runs: [] })
          }
          await end('SIGTERM', 0)
        }
      },
    ],
    ['worker frozen', () => freeze(false)],
    ['worker and executors frozen', () => freeze(true)],
    ['worker cut off from the database', () => cutOff(false)],
    ['worker frozen and cut off', () => cutOff(true)],
    [
      'database silent',
      async () => {
        database.machine.cutFrom()
        await delay(LEASE_MS * 1.5)
        database.machine.heal()
      },
    ],
    [
      // Leases expire while nobody can renew them, and a new process finds them.
      'database out for long, a worker and a scheduler started after it',
      async () => {
        await database.stop()
        await delay(LEASE_MS * 1.5)
        await database.start()
        await Promise.all([restart('scheduler', 'SIGKILL'), restart('worker', 'SIGTERM')])
      },
    ],
  ]

  return {
    counts,
    blows,
    async rage(untilTime) {
      while (Date.now() < untilTime)
        for (const [name, act] of shuffle(all, random)) {
          if (Date.now() >= untilTime) return
          say(name)
          await act()
          counts.set(name, (counts.get(name) ?? 0) + 1)
          await delay(2000 + random() * 3000)
        }
    },
  }
}

function shuffle<T>(items: T[], random: () => number): T[] {
  const rest = [...items]
  return items.map(() => rest.splice(Math.floor(random() * rest.length), 1)[0]!)
}

/** By process id, which is a part of a worker's name. */
async function runsByWorker({ pool }: Postgres): Promise<Map<number, string[]>> {
  const { rows } = await pool
    .query<{ id: string; worker: string }>(
      `SELECT id, worker FROM runs WHERE status = 'running' AND worker IS NOT NULL`,
    )
    .catch(() => ({ rows: [] }))
  const held = new Map<number, string[]>()
  for (const { id, worker } of rows) held.set(pidOf(worker), [...(held.get(pidOf(worker)) ?? []), id])
  return held
}

/** `host:pid:random` */
export const pidOf = (worker: string): number => Number(worker.split(':').at(-2))

function reaches(worker: Role, warehouse: Postgres): Promise<boolean> {
  const [command, ...args] = [
    ...worker.machine.enter,
    'bash',
    '-c',
    `exec 3<>/dev/tcp/${warehouse.machine.address}/5432`,
  ]
  return new Promise((resolve) => {
    execFile(command!, args, { timeout: 20_000 }, (error) => resolve(error === null))
  })
}

async function describeCommits({ pool }: Postgres, blow: Blow): Promise<string> {
  const { rows } = await pool
    .query<{ own: number; last_s: number | null; others: number }>(
      `SELECT count(*) FILTER (WHERE machine = $1)::int AS own,
              extract(epoch FROM max(at) FILTER (WHERE machine = $1) - to_timestamp($3))::float8 AS last_s,
              count(DISTINCT run_id) FILTER (WHERE machine <> $1)::int AS others
         FROM ledger.commits WHERE at > to_timestamp($3) AND run_id = ANY ($2)`,
      [blow.address, blow.runs, blow.from / 1000],
    )
    .catch(() => ({ rows: [] }))
  const [row] = rows
  if (!row) return 'the destination did not answer'
  const last = row.last_s === null ? 'none' : `${row.own}, the last ${row.last_s.toFixed(1)} s after the cut`
  return `it had ${blow.runs.length} runs; commits of its own since: ${last}; others have taken over ${row.others}`
}
