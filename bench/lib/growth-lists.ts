/**
 * The lists and reads of the console and the API, in turns: on the small installation, and on the large one for the
 * organization that has about as many pipelines as the small one, and for the largest.
 */
import { percentile, report } from './figures.ts'
import type { Installation } from './installation.ts'
import type { Platform } from './platform.ts'

const ROUNDS = 60
/** Before the first is measured, all are read so often: processes that have just started compile what they run. */
const WARM_ROUNDS = 10
const DAY_MS = 86_400_000
const LONG_AGO = new Date(Date.now() - 300 * DAY_MS).toISOString()
const LAST_WEEK = new Date(Date.now() - 7 * DAY_MS).toISOString()

interface Side {
  platform: Platform
  token: string
  pipeline: string
  run: string
  user: string
  ids: string
}

const targets: ((side: Side) => string)[] = [
  () => '/api/pipelines?limit=100',
  () => '/api/pipelines?limit=100&sort=name',
  () => '/api/pipelines?limit=100&sort=-last_run_at',
  () => '/api/pipelines?limit=100&sort=next_run_at',
  () => '/api/pipelines?limit=100&status=failed',
  () => '/api/pipelines?limit=100&q=Pipeline%2012',
  () => '/api/pipelines?limit=100&enabled=true&scheduled=false',
  () => '/api/pipelines?limit=100&source=dummy&destination=file',
  ({ pipeline }) => `/api/pipelines/${pipeline}`,
  ({ pipeline }) => `/api/pipelines/${pipeline}/runs`,
  ({ pipeline }) => `/api/pipelines/${pipeline}/runs?status=failed`,
  ({ pipeline }) => `/api/pipelines/${pipeline}/stats`,
  ({ ids }) => `/api/pipelines/activity?ids=${ids}&runs=20`,
  () => '/api/runs',
  () => '/api/runs?status=failed',
  () => '/api/runs?status=success',
  () => '/api/runs?status=running',
  () => '/api/runs?triggered_by=manual',
  () => `/api/runs?until=${LONG_AGO}`,
  () => `/api/runs?status=failed&until=${LONG_AGO}`,
  () => '/api/runs?include_counts=true',
  ({ pipeline }) => `/api/runs?pipeline_id=${pipeline}`,
  () => '/api/runs/timeline?pipelines=20',
  () => '/api/runs/days?days=1&timezone=UTC',
  ({ run }) => `/api/pipelines/runs/${run}`,
  () => '/api/audit',
  () => '/api/audit?action=member.role_changed',
  () => '/api/audit?object_type=run',
  ({ user }) => `/api/audit?actor_id=${user}`,
  ({ pipeline }) => `/api/audit?object_id=${pipeline}`,
  () => `/api/audit?since=${LAST_WEEK}`,
  () => `/api/audit?until=${LONG_AGO}`,
  () => '/api/users',
  () => '/api/domains',
  () => '/api/webhooks',
  () => '/api/saved/sources',
  () => '/api/custom-sources',
  () => '/api/api-keys',
  () => '/api/organization',
]

export const measureLists = (small: Installation, large: Installation): Promise<void> =>
  small.withPlatform((smallPlatform, smallToken) =>
    large.withPlatform(async (largePlatform, largeToken) => {
      const equal = await signInAsEqual(largePlatform, largeToken)
      const sides = [
        await look(smallPlatform, smallToken),
        await look(largePlatform, equal),
        await look(largePlatform, largeToken),
      ]
      for (const target of targets) await timeInTurns(sides, target, WARM_ROUNDS)
      for (const target of targets) {
        const times = await timeInTurns(sides, target, ROUNDS)
        if (times === null) continue
        const [before, equal, largest] = times.map((side) => percentile(side, 50)) as [number, number, number]
        report(
          target({ pipeline: 'ID', run: 'ID', user: 'ID', ids: 'ID,…' } as Side).replace(/=\d{4}-[^&]+/, '=TIME'),
          {
            small_p50_ms: before,
            equal_p50_ms: equal,
            largest_p50_ms: largest,
            ratio: equal / before,
            ratio_of_largest: largest / before,
          },
          'ratio <= 1.5',
        )
      }
    }),
  )

/** As the owner of the organization whose number of pipelines is nearest to that of the small installation. */
async function signInAsEqual({ api, db }: Platform, token: string): Promise<string> {
  const { email } = await api.read(token, '/api/auth/me')
  const [owner] = await db.query<{ email: string; pipelines: number }>(
    `WITH equal AS (SELECT organization_id, count(*)::int AS pipelines FROM pipelines GROUP BY 1 ORDER BY abs(count(*) - 1000) LIMIT 1)
     UPDATE users u SET password_hash = known.password_hash FROM users known, memberships m JOIN equal USING (organization_id)
      WHERE known.email = $1 AND u.id = m.user_id AND m.role = 'owner' RETURNING u.email, equal.pipelines`,
    [email],
  )
  console.log(`The organization of equal size has ${owner!.pipelines} pipelines.`)
  return api.login(owner!.email)
}

async function look(platform: Platform, token: string): Promise<Side> {
  const pipelines = (await platform.api.read(token, '/api/pipelines?limit=20&sort=-last_run_at')) as { id: string }[]
  const lines = (await platform.api.read(token, '/api/audit?limit=1000')) as { actor_id: string }[]
  const [run] = (await platform.api.read(token, '/api/runs?limit=1')) as { id: string }[]
  const ids = pipelines.map(({ id }) => id).join(',')
  return {
    platform,
    token,
    pipeline: pipelines[0]!.id,
    run: run!.id,
    user: mostFrequent(lines.map(({ actor_id }) => actor_id)),
    ids,
  }
}

/** Somebody with as long a list everywhere: the newest line is by whoever signed in for this. */
function mostFrequent(ids: (string | null)[]): string {
  const counts = new Map<string, number>()
  for (const id of ids) if (id !== null) counts.set(id, (counts.get(id) ?? 0) + 1)
  return [...counts].sort(([, a], [, b]) => b - a)[0]![0]
}

/** Null if there is no such list. */
async function timeInTurns(
  sides: readonly Side[],
  target: (side: Side) => string,
  rounds: number,
): Promise<number[][] | null> {
  const times: number[][] = sides.map(() => [])
  for (let round = -2; round < rounds; round++)
    for (const [index, side] of sides.entries()) {
      const began = performance.now()
      const answer = await fetch(side.platform.url + target(side), {
        headers: { authorization: `Bearer ${side.token}` },
      })
      const body = await answer.text()
      if (!answer.ok) {
        console.log(`${target(side)}: ${answer.status} ${body.slice(0, 200)}`)
        return null
      }
      if (round >= 0) times[index]!.push(performance.now() - began)
    }
  return times
}
