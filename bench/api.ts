/**
 * The cost of a request: `GET /api/auth/me` and a list of 100 members with 10 connections, compared with a bare Fastify + pg
 * server on the same database that verifies the same token and reads the same rows. Both are measured in turns, so that
 * changes in the machine's speed affect both.
 *
 *   npm run bench:api
 */
import './lib/help.ts'
import { fork } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { decodeJwt } from 'jose'
import { median, report } from './lib/figures.ts'
import { type Seen, startLoadGenerator } from './lib/load.ts'
import { type Platform, startPlatform } from './lib/platform.ts'

const MEMBERS = 100
const CONNECTIONS = 10
const ROUND_MS = Number(process.env.ROUND_MS ?? 2000)
const ROUNDS = Number(process.env.ROUNDS ?? 7)

/** With the CPU time of the server's process per request. */
type Measured = Seen & { cpu_us: number }

const TICK_MS = 10

function readCpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS
}

async function seed({ api, db }: Platform): Promise<string> {
  const token = await api.register()
  const { org } = decodeJwt(token)
  await db.query(
    `WITH people AS (
       INSERT INTO users (email, name, avatar_url) SELECT 'member.' || n || '@example.com', 'Member number ' || n, 'https://example.com/' || n
         FROM generate_series(1, $2::int) n RETURNING id)
     INSERT INTO memberships (organization_id, user_id, role, joined_at)
     SELECT $1, id, 'member', now() - random() * interval '100 days' FROM people`,
    [org, MEMBERS - 1],
  )
  await db.query('VACUUM ANALYZE users, memberships, sessions', [])
  return token
}

async function startBare(platform: Platform, folder: string): Promise<{ url: string; pid: number; stop(): void }> {
  const { jwt_secret } = JSON.parse(readFileSync(path.join(folder, 'secrets.json'), 'utf8')) as { jwt_secret: string }
  const child = fork(new URL('./lib/bare-api.ts', import.meta.url).pathname, {
    env: { PATH: process.env.PATH!, BARE: JSON.stringify({ connection: platform.connection, secret: jwt_secret }) },
  })
  const port = await new Promise<number>((resolve) => child.once('message', (message) => resolve(message as number)))
  return { url: `http://127.0.0.1:${port}`, pid: child.pid!, stop: () => child.kill() }
}

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
const platform = await startPlatform(folder)
const generator = startLoadGenerator()
try {
  const token = await seed(platform)
  const bare = await startBare(platform, folder)
  const cases = [
    { what: 'GET /api/auth/me', ours: '/api/auth/me', theirs: '/me', bytes: 200 },
    { what: `GET /api/users, ${MEMBERS} members`, ours: '/api/users', theirs: '/members', bytes: 10_000 },
  ]
  for (const { what, ours, theirs, bytes } of cases) {
    const sides = [
      { url: platform.url, pid: platform.service_pid, target: ours, seen: [] as Measured[] },
      { url: bare.url, pid: bare.pid, target: theirs, seen: [] as Measured[] },
    ]
    const run = async ({ url, pid, target }: (typeof sides)[number]): Promise<Measured> => {
      const before = readCpuMs(pid)
      const seen = await generator.run({ url, target, token, connections: CONNECTIONS, ms: ROUND_MS, bytes })
      return { ...seen, cpu_us: ((readCpuMs(pid) - before) * 1000) / seen.requests }
    }
    for (const side of sides) await run(side)
    for (let round = 0; round < ROUNDS; round++) for (const side of sides) side.seen.push(await run(side))
    const middle = (side: number, figure: keyof Measured) => median(sides[side]!.seen.map((seen) => seen[figure]))
    const ratios = sides[0]!.seen.map((seen, round) => seen.requests_s / sides[1]!.seen[round]!.requests_s)
    report(
      what,
      {
        requests_s: middle(0, 'requests_s'),
        p50_ms: middle(0, 'p50_ms'),
        p99_ms: middle(0, 'p99_ms'),
        bare_requests_s: middle(1, 'requests_s'),
        bare_p50_ms: middle(1, 'p50_ms'),
        bare_p99_ms: middle(1, 'p99_ms'),
        cpu_us: middle(0, 'cpu_us'),
        bare_cpu_us: middle(1, 'cpu_us'),
        of_bare: median(ratios),
      },
      'at least 0.9 of bare',
    )
  }
  bare.stop()
} finally {
  generator.stop()
  await platform.stop()
  rmSync(folder, { recursive: true, force: true })
}
