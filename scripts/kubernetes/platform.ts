/** The platform in the cluster, by its API; and what its runs have left in the ledger. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Stores } from './stores.ts'

export interface Load {
  table: string
  records: number
  runId: string
}

export interface Run {
  id: string
  status: string
  attempt: number
  worker: string | null
  checkpoint: number
  error: string | null
}

export interface Platform {
  /** Starts a run of a pipeline of its own, which loads into a table of its own. */
  load(options: { records: number; delayMs: number; pod?: string }): Promise<Load>
  run(id: string): Promise<Run>
  /** Which pod a run is on, or was last. */
  podOf(run: Run): string
  /** Waits for their ends and compares what is in the ledger with what was to be loaded. */
  settle(loads: Load[], seconds: number): Promise<Settled>
  sandbox(): Promise<string>
  cancel(id: string): Promise<unknown>
}

export interface Settled {
  runs: Run[]
  /** Attempts whose workers were lost, instead of handing over. */
  lost: number
  records: number
  missing: number
  doubled: number
}

/**
 * Registers an account with an organization of its own, and returns how to call the API. A pod that goes takes its
 * connections with it; whatever is asked here may be asked again.
 */
export async function register(url: string) {
  let token = ''
  const call = async (method: string, path: string, body?: unknown) => {
    for (let tries = 1; ; tries++) {
      try {
        const answer = await fetch(`${url}${path}`, {
          method,
          headers: {
            authorization: `Bearer ${token}`,
            ...(body !== undefined && { 'content-type': 'application/json' }),
          },
          body: body === undefined ? null : JSON.stringify(body),
          signal: AbortSignal.timeout(30_000),
        })
        const text = await answer.text()
        if (answer.status === 503 && tries < 60) throw new Error(text)
        if (!answer.ok) throw new Refused(`${method} ${path}: ${answer.status} ${text}`)
        return JSON.parse(text)
      } catch (error) {
        if (error instanceof Refused || tries === 60) throw error
        await delay(1000)
      }
    }
  }
  const name = Date.now().toString(36)
  const account = {
    email: `test-${name}@example.com`,
    password: 'Correct-horse-1',
    name: 'Test',
    organization_name: `Test ${name}`,
  }
  token = (await call('POST', '/api/auth/register', account)).access_token
  return call
}

export async function askSandbox(url: string, metricsToken: string): Promise<string> {
  const answer = await fetch(`${url}/readyz`, { headers: { authorization: `Bearer ${metricsToken}` } })
  return ((await answer.json()) as { sandbox: string }).sandbox
}

export async function signUp(url: string, stores: Stores, metricsToken: string): Promise<Platform> {
  const call = await register(url)
  const name = Date.now().toString(36)
  let tables = 0
  const ledger = new URL(stores.ledgerUrl)

  const platform: Platform = {
    async load({ records, delayMs, pod }) {
      const table = `t_${name}_${++tables}`
      const config = {
        source: { name: 'dummy', stream: 'creatures', config: { records, delay_ms: delayMs, seed: tables } },
        destination: {
          name: 'postgres',
          config: {
            host: ledger.hostname,
            port: Number(ledger.port || 5432),
            database: ledger.pathname.slice(1),
            user: ledger.username,
            password: decodeURIComponent(ledger.password),
            table,
          },
        },
        sync: { write: 'append' },
        run: pod === undefined ? {} : { isolation: 'pod', resources: pod },
      }
      const pipeline = await call('POST', '/api/pipelines', { name: table, config })
      const run = await call('POST', `/api/pipelines/${pipeline.id}/run`)
      return { table, records, runId: run.id }
    },
    async run(id) {
      const { rows } = await stores.database.query<Run>(
        'SELECT id, status, attempt, worker, checkpoint, error FROM runs WHERE id = $1',
        [id],
      )
      return rows[0]!
    },
    podOf: ({ worker }) => (worker ?? '').split(':')[0]!,
    async settle(loads, seconds) {
      const until = Date.now() + seconds * 1000
      const runs: Run[] = []
      let lost = 0
      for (const { runId } of loads) {
        let run = await platform.run(runId)
        while (['pending', 'running'].includes(run.status)) {
          if (Date.now() > until) throw new Error(`the run ${runId} is still ${run.status} after ${seconds} s`)
          await delay(500)
          run = await platform.run(runId)
        }
        if (run.status !== 'success') throw new Error(`the run ${runId} has ${run.status}: ${run.error}`)
        runs.push(run)
        const { logs } = await call('GET', `/api/pipelines/runs/${runId}/logs`)
        lost += logs.match(/ was lost in attempt /g)?.length ?? 0
      }
      const settled = { runs, lost, records: 0, missing: 0, doubled: 0 }
      for (const { table, records } of loads) {
        const { rows } = await stores.ledger.query<{ all: number; known: number }>(
          `SELECT count(*)::int AS all, count(DISTINCT id)::int AS known FROM ${table}`,
        )
        settled.records += rows[0]!.all
        settled.missing += records - rows[0]!.known
        settled.doubled += rows[0]!.all - rows[0]!.known
      }
      if (settled.missing !== 0 || settled.doubled !== 0)
        throw new Error(`${settled.missing} records are missing and ${settled.doubled} are there twice`)
      return settled
    },
    sandbox: () => askSandbox(url, metricsToken),
    cancel: (id) => call('POST', `/api/pipelines/runs/${id}/cancel`),
  }
  return platform
}

class Refused extends Error {}
