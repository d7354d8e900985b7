/**
 * Fail-over of the platform's database under load: `npm run test:failover`. A primary with a synchronous replica, an API, two
 * workers and a scheduler; the primary is killed, or cut off without a word, and the replica promoted a second later.
 * Nothing that was acknowledged may be lost, claims and ticks must go on within 30 s, and no run may count as one whose
 * worker died.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { ACCOUNT, environment, runSluice, type Service, whenReady } from '../server/test/harness/service.ts'
import { type Cluster, describeMachine, findBinaries, startCluster } from './failover/cluster.ts'
import { hasHaproxy, startHaproxy } from './failover/haproxy.ts'

const HELP = `npm run test:failover -- [--seconds N] [--case hosts-kill] …

Cases: hosts-kill, hosts-cut, haproxy-kill, haproxy-cut (without --case: all). --seconds: load before and after the fault.`
const CASES = ['hosts-kill', 'hosts-cut', 'haproxy-kill', 'haproxy-cut']
const AT_MOST_SECONDS = 30
const PIPELINES = 20
const PROMOTED_AFTER_MS = 1000

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '15' },
    case: { type: 'string', multiple: true, default: CASES },
    help: { type: 'boolean', default: false },
  },
})
const unknown = values.case.find((name) => !CASES.includes(name))
if (values.help || unknown !== undefined) {
  console.log(HELP)
  process.exit(values.help ? 0 : 2)
}
if (findBinaries() === null) {
  console.log('No PostgreSQL with pg_basebackup is installed (Debian: apt-get install postgresql); nothing was tested.')
  process.exit(2)
}
const seconds = Number(values.seconds)

interface Load {
  acknowledged: string[]
  /** Answers other than 201. */
  refused: Map<string, number>
  firstAfter(moment: number): number | undefined
  stop(): Promise<void>
}

function begin(url: string, token: string, pipelines: string[]): Load {
  const acknowledged: string[] = []
  const times: number[] = []
  const refused = new Map<string, number>()
  let going = true
  const trigger = async (index: number) => {
    for (let turn = index; going; turn++) {
      const answer = await fetch(`${url}/api/pipelines/${pipelines[turn % pipelines.length]}/run`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}` },
        signal: AbortSignal.timeout(90_000),
      }).catch((error: Error) => error)
      if (answer instanceof Error) {
        refused.set(answer.name, (refused.get(answer.name) ?? 0) + 1)
        await delay(200)
      } else if (answer.status === 201) {
        acknowledged.push(((await answer.json()) as { id: string }).id)
        times.push(Date.now())
        await delay(100)
      } else {
        const { detail } = (await answer.json()) as { detail: string }
        refused.set(`${answer.status} ${detail}`, (refused.get(`${answer.status} ${detail}`) ?? 0) + 1)
        await delay(200)
      }
    }
  }
  const all = Promise.all([0, 5, 10, 15].map(trigger))
  return {
    acknowledged,
    refused,
    firstAfter: (moment) => times.find((time) => time > moment),
    async stop() {
      going = false
      await all
    },
  }
}

async function post(url: string, body: unknown, token = ''): Promise<Record<string, unknown>> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  if (answer.status !== 201) throw new Error(`${url}: ${await answer.text()}`)
  return (await answer.json()) as Record<string, unknown>
}

const sketch = (index: number) => ({
  name: `p${index}`,
  config: {
    name: `p${index}`,
    source: { name: 'dummy', stream: 'creatures', config: { records: 20 } },
    destination: { name: 'logger', config: {} },
  },
})

interface Figures {
  first_201_s: number | undefined
  first_claim_s: number | undefined
  first_tick_s: number | undefined
  acknowledged: number
  lost: number
  unfinished: number
  failed: number
  counted_as_dead: number
  handed_over: number
  refused: string
}

async function prove(name: string): Promise<{ figures: Figures; problems: string[] }> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-failover-'))
  const cluster = await startCluster(folder)
  const balancer = name.startsWith('haproxy') ? await startHaproxy(folder, cluster) : null
  const services: Service[] = []
  try {
    const { primary, replica, password } = cluster
    const list = balancer
      ? `127.0.0.1:${balancer.port}`
      : `${primary.host}:${primary.port},${replica.host}:${replica.port}`
    const env = environment(folder, {
      DATABASE_URL: `postgres://sluice:${password}@${list}/postgres?target_session_attrs=read-write`,
      JWT_SECRET_KEY: 'x'.repeat(32),
      ENCRYPTION_KEY: 'x'.repeat(32),
      ORG_CONCURRENCY: '8',
      LOG_LEVEL: 'warn',
    })
    const migrated = await runSluice(['migrate'], env).ended
    if (migrated.code !== 0) throw new Error(migrated.stderr)
    services.push(await whenReady(runSluice(['api'], env)))
    for (const role of ['worker', 'worker', 'scheduler']) {
      const started = runSluice([role], env)
      services.push({ ...started, url: '' })
    }
    const { url } = services[0]!
    const { access_token } = (await post(`${url}/api/auth/register`, ACCOUNT)) as { access_token: string }
    const create = async (index: number, more: object = {}) =>
      (await post(`${url}/api/pipelines`, { ...sketch(index), ...more }, access_token)).id as string
    const pipelines = await Promise.all(Array.from({ length: PIPELINES }, (_, index) => create(index)))
    // One is due every second for two minutes.
    for (let index = 0; index < 120; index++) await create(1000 + index, { schedule: '0 0 1 1 *' })
    await cluster.ask(
      primary,
      `UPDATE pipelines p SET next_run_at = now() + n.place * interval '1 second'
      FROM (SELECT id, row_number() OVER () AS place FROM pipelines WHERE schedule IS NOT NULL) n WHERE n.id = p.id`,
    )
    const load = begin(url, access_token, pipelines)
    await delay(seconds * 1000)

    const fault = Date.now()
    if (name.endsWith('kill')) cluster.kill()
    else cluster.cut()
    await delay(PROMOTED_AFTER_MS)
    await cluster.promote()
    balancer?.follow()
    await delay(Math.max(seconds, AT_MOST_SECONDS) * 1000)
    await load.stop()
    return await judge(cluster, load, fault)
  } finally {
    for (const { child } of services) child.kill('SIGKILL')
    await Promise.all(services.map(({ ended }) => ended))
    await balancer?.stop()
    await cluster.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function judge(
  { ask, replica }: Cluster,
  load: Load,
  fault: number,
): Promise<{ figures: Figures; problems: string[] }> {
  const ids = load.acknowledged.map((id) => `('${id}'::uuid)`).join(',')
  const open = () =>
    ask<{ count: number }>(replica, `SELECT count(*)::int AS count FROM runs WHERE status IN ('pending', 'running')`)
  for (const deadline = Date.now() + 120_000; (await open())[0]!.count > 0 && Date.now() < deadline; ) await delay(500)
  // Rows since the promotion; the times are counted from the fault.
  const since = `to_timestamp(${(fault + PROMOTED_AFTER_MS) / 1000})`
  const seconds = (column: string) => `extract(epoch FROM min(${column}) - to_timestamp(${fault / 1000}))::float8`
  const rows = await ask<Omit<Figures, 'first_201_s' | 'acknowledged' | 'refused'>>(
    replica,
    `SELECT (SELECT ${seconds('started_at')} FROM runs WHERE started_at > ${since}) AS first_claim_s,
            (SELECT ${seconds('created_at')} FROM runs WHERE triggered_by = 'schedule' AND created_at > ${since}) AS first_tick_s,
            (SELECT count(*)::int FROM (VALUES ${ids}) AS a (id) WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = a.id)) AS lost,
            (SELECT count(*)::int FROM runs WHERE status IN ('pending', 'running')) AS unfinished,
            (SELECT count(*)::int FROM runs WHERE status = 'failed') AS failed,
            (SELECT count(*)::int FROM runs WHERE lost_attempts > 0) AS counted_as_dead,
            (SELECT count(*)::int FROM runs WHERE attempt > 1) AS handed_over`,
  )
  const first = load.firstAfter(fault + PROMOTED_AFTER_MS)
  const figures: Figures = {
    first_201_s: first === undefined ? undefined : (first - fault) / 1000,
    acknowledged: load.acknowledged.length,
    ...rows[0]!,
    refused: [...load.refused].map(([what, count]) => `${count}× ${what}`).join('; ') || 'none',
  }
  const late = (what: string, value: number | undefined | null) =>
    value === undefined || value === null || value > AT_MOST_SECONDS ? [`${what} after ${value ?? 'never'} s`] : []
  const problems = [
    ...late('the first request was answered', figures.first_201_s),
    ...late('the first claim came', figures.first_claim_s),
    ...late('the first tick came', figures.first_tick_s),
    ...(['lost', 'unfinished', 'failed', 'counted_as_dead'] as const).flatMap((what) =>
      figures[what] > 0 ? [`${figures[what]} runs ${what}`] : [],
    ),
  ]
  return { figures, problems }
}

console.log(`${describeMachine()}; promoted ${PROMOTED_AFTER_MS / 1000} s after the fault; times are from the fault`)
let failed = false
for (const name of values.case) {
  if (name.startsWith('haproxy') && !hasHaproxy()) {
    console.log(`${name}: skipped, haproxy is not installed (Debian: apt-get install haproxy)`)
    continue
  }
  const { figures, problems } = await prove(name)
  console.log(`${name}: ${JSON.stringify(figures)}`)
  for (const problem of problems) console.log(`  WRONG: ${problem}`)
  failed ||= problems.length > 0
}
process.exitCode = failed ? 1 : 0
