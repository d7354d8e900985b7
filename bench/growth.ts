/**
 * What an installation with many runs costs: half of them belong to one organization with 10,000 pipelines, one in two
 * hundred failed, one in a thousand was triggered manually, one in five hundred belongs to a small domain. Each list is
 * compared with the same request on the empty installation.
 *
 *   npm run bench:growth                       a million runs, about two minutes
 *   npm run bench:growth -- --runs 10000000    ten million, about twenty minutes and 8 GB of disk
 */
import './lib/help.ts'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { decodeJwt } from 'jose'
import pg from 'pg'
import { connectDatabase, type Database } from '../server/src/database/database.ts'
import { claim, nextAvailableMs } from '../server/src/runs/claim.ts'
import { packLogs } from '../server/src/runs/log-packing.ts'
import { recoverLostRuns } from '../server/src/runs/recover.ts'
import { expireOutputs, removeLeftStages } from '../server/src/scheduler/tidy.ts'
import { percentile, report } from './lib/figures.ts'
import { type Platform, startPlatform } from './lib/platform.ts'

const { values } = parseArgs({ options: { runs: { type: 'string', default: '1000000' } } })
const RUNS = Number(values.runs)
const PIPELINES = 10_000
const REQUESTS = 30
const BATCH = 1_000_000
const LONG_AGO = new Date(Date.now() - 299 * 86_400_000).toISOString()
const NOBODY = '00000000-0000-0000-0000-000000000000'

/** Over a connection without timeouts. Building the indexes at the end takes a quarter of the time of maintaining them. */
async function fill({ connection }: Platform, organization: string, domain: string): Promise<void> {
  const client = new pg.Client(connection)
  await client.connect()
  try {
    const { rows: indexes } = await client.query(`
      SELECT indexrelid::regclass AS name, pg_get_indexdef(indexrelid) AS definition FROM pg_index i
       WHERE indrelid = 'runs'::regclass AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid)`)
    await client.query('BEGIN')
    // Neither triggers nor foreign keys: what is written here fits together.
    await client.query('SET LOCAL session_replication_role = replica')
    for (const { name } of indexes) await client.query(`DROP INDEX ${name}`)
    await client.query(
      `INSERT INTO pipelines (id, organization_id, name, config_box, stream, domain_id)
       SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, CASE WHEN n <= $1 THEN $2::uuid ELSE gen_random_uuid() END,
              'Pipeline ' || n, '\\x00', 's', CASE WHEN n % 500 = 0 THEN $3::uuid END
         FROM generate_series(1, 2 * $1::int) n`,
      [PIPELINES, organization, domain],
    )
    for (let from = 1; from <= RUNS; from += BATCH) {
      const to = Math.min(from + BATCH - 1, RUNS)
      await fillRuns(client, from, to)
      console.log(`${to.toLocaleString('en-US')} of ${RUNS.toLocaleString('en-US')} runs written`)
    }
    console.log('building the indexes')
    for (const { definition } of indexes) await client.query(definition)
    await client.query(`
      INSERT INTO pipeline_activity (pipeline_id, organization_id, created_at, last_run_seq, last_run_status, last_run_at)
      SELECT p.id, p.organization_id, p.created_at, r.seq, r.status, r.created_at
        FROM pipelines p CROSS JOIN LATERAL (SELECT * FROM runs r WHERE r.pipeline_id = p.id ORDER BY seq DESC LIMIT 1) r ON CONFLICT DO NOTHING`)
    await client.query('COMMIT')
    await client.query('VACUUM ANALYZE')
  } finally {
    await client.end()
  }
}

async function fillRuns(client: pg.Client, from: number, to: number): Promise<void> {
  await client.query(
    `INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, status, created_at, started_at, finished_at, attempt, worker,
                       records_read, records_written, bytes_written, output_file, output_file_size, log_key)
     SELECT p.organization_id, p.id, CASE WHEN n % 1000 = 0 THEN 'manual' ELSE 'schedule' END, true, CASE WHEN failed THEN 'failed' ELSE 'success' END,
            at, at, at + interval '2 seconds', 1, 'bench', 1000, 1000, 100000,
            CASE WHEN NOT failed AND recent THEN 'output.jsonl' END, CASE WHEN NOT failed AND recent THEN 100000 END, CASE WHEN recent THEN 'log' END
       FROM (SELECT n, n % 200 = 0 AS failed, n > $3 * 0.9 AS recent, now() - ($3 - n)::float8 / $3 * interval '300 days' AS at FROM generate_series($1::int, $2::int) n) x
       JOIN pipelines p ON p.id = ('00000000-0000-4000-8000-' || lpad(to_hex(1 + (n * 7919::bigint) % (2 * $4::int)), 12, '0'))::uuid`,
    [from, to, RUNS, PIPELINES],
  )
}

async function time(what: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = []
  for (let index = 0; index < REQUESTS; index++) {
    const began = performance.now()
    await what()
    times.push(performance.now() - began)
  }
  return times
}

async function get(platform: Platform, token: string, target: string): Promise<void> {
  const answer = await fetch(platform.url + target, { headers: { authorization: `Bearer ${token}` } })
  const body = await answer.text()
  if (!answer.ok) throw new Error(`${target}: ${answer.status} ${body}`)
}

async function measureLists(platform: Platform, token: string, domain: string): Promise<Map<string, number[]>> {
  const pipeline = '00000000-0000-4000-8000-000000000007'
  const targets = [
    '/api/runs',
    '/api/runs?status=failed',
    '/api/runs?status=success',
    '/api/runs?triggered_by=manual',
    `/api/runs?until=${LONG_AGO}`,
    `/api/runs?status=failed&until=${LONG_AGO}`,
    `/api/runs?domain_id=${domain}`,
    '/api/runs?include_counts=true',
    `/api/runs?pipeline_id=${pipeline}`,
    '/api/pipelines?limit=100',
    '/api/pipelines?limit=100&status=failed',
  ]
  const measured = new Map<string, number[]>()
  for (const target of targets) measured.set(target, await time(() => get(platform, token, target)))
  return measured
}

async function measureRun(platform: Platform, token: string): Promise<number[]> {
  const { id } = await platform.api.create(token, '/api/pipelines', {
    name: 'one more',
    config: {
      name: 'one more',
      source: { name: 'dummy', stream: 'creatures', config: { records: 10 } },
      destination: { name: 'file', config: {} },
    },
  })
  return time(async () => {
    const run = await platform.api.create(token, `/api/pipelines/${id}/run`)
    await platform.api.untilFinished(token, run.id)
  })
}

async function measureUpkeep(db: Database): Promise<void> {
  const noBlobs = { list: async function* () {}, delete: async () => {} }
  const services = { db, blobs: noBlobs, log: { warn: console.error } } as never
  const request = { worker: 'bench', free: 8, perOrganization: 4, leaseSeconds: 600, after: NOBODY }
  const steps: Record<string, () => Promise<unknown>> = {
    'claim, nothing waits': () => claim(db.control, request),
    'the next back-off': () => nextAvailableMs(db.control),
    'lost runs': () => recoverLostRuns(db.control, 600),
    'logs to pack': () => packLogs(db, noBlobs as never, () => {}),
    'stages that were left': () => removeLeftStages(services),
    'outputs to expire, none is old enough': () => expireOutputs(services, 365),
  }
  for (const [what, step] of Object.entries(steps)) {
    const times = await time(step)
    report(what, { p50_ms: percentile(times, 50), worst_ms: Math.max(...times) }, 'p50 < 5 ms')
  }
}

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-growth-'))
const platform = await startPlatform(folder)
const db = connectDatabase(platform.connection, 2, console.error)
try {
  const token = await platform.api.register()
  const domain = (await platform.api.create(token, '/api/domains', { name: 'Small' })).id as string
  const empty = await measureLists(platform, token, domain)
  const runsBefore = await measureRun(platform, token)
  const began = performance.now()
  await fill(platform, decodeJwt(token).org as string, domain)
  console.log(`filled in ${Math.round((performance.now() - began) / 1000)} s`)
  for (const [target, times] of await measureLists(platform, token, domain))
    report(
      target.replace(/[0-9a-f-]{36}/, 'ID').replace(/until=[^&]+/, 'until=LONG_AGO'),
      {
        p50_ms: percentile(times, 50),
        worst_ms: Math.max(...times),
        empty_p50_ms: percentile(empty.get(target)!, 50),
      },
      'p50 < 50 ms',
    )
  report(
    'trigger until success',
    {
      p50_ms: percentile(await measureRun(platform, token), 50),
      empty_p50_ms: percentile(runsBefore, 50),
    },
    'as before',
  )
  await measureUpkeep(db)
} finally {
  await db.close()
  await platform.stop()
  rmSync(folder, { recursive: true, force: true })
}
