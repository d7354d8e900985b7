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
import { connectDatabase, type Database } from '../server/src/database/database.ts'
import { claim, nextAvailableMs } from '../server/src/runs/claim.ts'
import { packLogs } from '../server/src/runs/log-packing.ts'
import { recoverLostRuns } from '../server/src/runs/recover.ts'
import { expireOutputs, removeLeftStages } from '../server/src/scheduler/cleanup.ts'
import { percentile, report } from './lib/figures.ts'
import { fillRuns } from './lib/many-runs.ts'
import { type Platform, startPlatform } from './lib/platform.ts'

const { values } = parseArgs({ options: { runs: { type: 'string', default: '1000000' } } })
const RUNS = Number(values.runs)
const REQUESTS = 30
const LONG_AGO = new Date(Date.now() - 299 * 86_400_000).toISOString()
const NOBODY = '00000000-0000-0000-0000-000000000000'

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
  await fillRuns(platform.connection, { organization: decodeJwt(token).org as string, domain, runs: RUNS })
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
