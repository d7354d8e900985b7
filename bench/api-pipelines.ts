/**
 * Pipelines over HTTP: a list of 100 of 10,000 with domain names and last runs, compared with a bare authenticated list of
 * Fastify and pg, and the time to create a pipeline.
 *
 *   npm run bench:api
 */
import './lib/help.ts'
import { fork } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Pool } from 'undici'
import { median, percentile, report } from './lib/figures.ts'
import { type Platform, startPlatform } from './lib/platform.ts'

const PIPELINES = 10_000
const CONNECTIONS = 10
const ROUND_MS = 3000
const ROUNDS = 5

const config = {
  source: { name: 'dummy', stream: 'creatures', authentication: { type: 'api_key', params: { token: 'x' } } },
  destination: { name: 'file', config: { format: 'jsonl' } },
}

async function seed({ api, db }: Platform): Promise<string> {
  const token = await api.register()
  const { id } = await api.create(token, '/api/pipelines', { name: 'first', config, schedule: '0 6 * * *' })
  for (let index = 0; index < 20; index++) await api.create(token, '/api/domains', { name: `Domain ${index}` })
  await db.query(
    `INSERT INTO pipelines (organization_id, name, config_box, source_name, stream, destination_name, schedule, enabled, domain_id, created_at)
     SELECT p.organization_id, 'Pipeline number ' || n, p.config_box, p.source_name, p.stream, p.destination_name, p.schedule, true,
            (SELECT id FROM domains d WHERE d.organization_id = p.organization_id ORDER BY d.name OFFSET n % 20 LIMIT 1),
            now() - n * interval '1 minute'
       FROM pipelines p, generate_series(1, $2::int) n WHERE p.id = $1`,
    [id, PIPELINES - 1],
  )
  await db.query("UPDATE pipeline_activity SET last_run_status = 'success', last_run_at = created_at", [])
  await db.query('VACUUM ANALYZE pipelines, pipeline_activity', [])
  return token
}

/** Requests per second over keep-alive connections that each send the next request when the last is answered. */
async function load(url: string, target: string, token: string): Promise<number> {
  const pool = new Pool(url, { connections: CONNECTIONS, pipelining: 1 })
  const headers = { authorization: `Bearer ${token}` }
  const end = performance.now() + ROUND_MS
  let answered = 0
  const worker = async () => {
    while (performance.now() < end) {
      const { statusCode, body } = await pool.request({ method: 'GET', path: target, headers })
      const bytes = (await body.arrayBuffer()).byteLength
      if (statusCode !== 200 || bytes < 10_000) throw new Error(`${target}: ${statusCode}, ${bytes} bytes`)
      answered++
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, worker))
  await pool.close()
  return (answered * 1000) / ROUND_MS
}

async function compareLists(platform: Platform, folder: string, token: string): Promise<void> {
  const { jwt_secret } = JSON.parse(readFileSync(path.join(folder, 'secrets.json'), 'utf8')) as { jwt_secret: string }
  const bare = fork(new URL('./lib/bare-list.ts', import.meta.url).pathname, {
    env: { PATH: process.env.PATH!, BARE: JSON.stringify({ connection: platform.connection, secret: jwt_secret }) },
  })
  try {
    const port = await new Promise<number>((resolve) => bare.once('message', (message) => resolve(message as number)))
    const sides = [
      { url: platform.url, target: '/api/pipelines', rates: [] as number[] },
      { url: `http://127.0.0.1:${port}`, target: '/list', rates: [] as number[] },
    ]
    for (const { url, target } of sides) await load(url, target, token)
    for (let round = 0; round < ROUNDS; round++)
      for (const { url, target, rates } of sides) rates.push(await load(url, target, token))
    const [ours, theirs] = sides.map(({ rates }) => median(rates)) as [number, number]
    report(
      `list of 100 of ${PIPELINES} pipelines`,
      { requests_s: ours, bare_requests_s: theirs, of_bare: ours / theirs },
      'at least 0.9 of bare',
    )
  } finally {
    bare.kill()
  }
}

async function measureCreate({ api }: Platform, token: string): Promise<void> {
  const times: number[] = []
  for (let index = 0; index < 400; index++) {
    const began = performance.now()
    await api.create(token, '/api/pipelines', { name: `created ${index}`, config, schedule: '0 6 * * *' })
    if (index >= 100) times.push(performance.now() - began)
  }
  report(
    'create a pipeline, seen by the client',
    { p50_ms: percentile(times, 50), p95_ms: percentile(times, 95) },
    'p50 < 5 ms',
  )
}

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
const platform = await startPlatform(folder)
try {
  const token = await seed(platform)
  await measureCreate(platform, await platform.api.register())
  await compareLists(platform, folder, token)
} finally {
  await platform.stop()
  rmSync(folder, { recursive: true, force: true })
}
