/**
 * Reproducible chaos: many runs over many pipelines while workers, executors and the database are killed, paused and
 * restarted at points that a seed determines. Two workers have separate disks and share only the database and the blob
 * store. At the end every run must be in a correct final state, every output must contain exactly what its source
 * produced, and no process and no file may be left over.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { pino } from 'pino'
import { readParts } from '../../src/blobs/part-reader.ts'
import type { StoredPart } from '../../src/blobs/parts.ts'
import { readConfig } from '../../src/config/config.ts'
import type { Page, ReadContext } from '../../src/connectors/contract.ts'
import { findSource } from '../../src/connectors/registry.ts'
import { connectDatabase, sql } from '../../src/database/database.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/database/embedded-postgres.ts'
import { migrate } from '../../src/database/migrate.ts'
import { createApp } from '../../src/http/app.ts'
import { cleanUpOften } from '../../src/scheduler/cleanup.ts'
import { composeServices, type Services } from '../../src/services.ts'

export interface ChaosOptions {
  seed: number
  runs: number
  pipelines: number
  /** Records per run; a few milliseconds apart, so that a run is long enough to be hit. */
  records: number
  /** The minimum duration of the chaos; new runs are triggered meanwhile. */
  seconds: number
  say: (line: string) => void
}

export interface ChaosResult {
  runs: number
  succeeded: number
  failed: number
  blows: Record<string, number>
  resumed: number
}

const SECRET = 'a chaos secret that is long enough to sign and to seal with'
const MAIN = new URL('../../src/main.js', import.meta.url).pathname

export async function unleashChaos(options: ChaosOptions): Promise<ChaosResult> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-chaos-'))
  const world = await openWorld(folder)
  try {
    const token = await register(world)
    const pipelines = await createPipelines(world, token, options)
    const random = createRandom(options.seed)
    const blows: Record<string, number> = {}
    const over = { value: false }
    const striking = strike(world, random, blows, over, options.say)
    await triggerAll(world, token, pipelines, options)
    await untilAllFinished(world, options)
    over.value = true
    await striking
    const result = await verify(world, token, pipelines, options)
    return { ...result, blows }
  } finally {
    await world.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

interface World {
  folder: string
  services: Services
  inject: Awaited<ReturnType<typeof createApp>>['inject']
  workers: ChildProcess[]
  startWorker(index: number): void
  restartDatabase(): Promise<void>
  stopWorkers(): Promise<void>
  close(): Promise<void>
}

async function openWorld(folder: string): Promise<World> {
  const dataDir = path.join(folder, 'database')
  mkdirSync(dataDir, { mode: 0o700 })
  let postgres: EmbeddedPostgres = await startEmbeddedPostgres(dataDir, 'chaos')
  const { host } = postgres.connection
  const env = {
    DATABASE_URL: `postgres://sluice:chaos@localhost/postgres?host=${encodeURIComponent(host!)}`,
    BLOB_URL: pathToFileURL(path.join(folder, 'blobs')).href,
    JWT_SECRET_KEY: SECRET,
    ENCRYPTION_KEY: SECRET,
    LOG_LEVEL: 'error',
    RUN_CHECKPOINT_MS: '100',
    RUN_LEASE_SECONDS: '3',
    ORG_CONCURRENCY: '8',
    WORKER_CONCURRENCY: '4',
    DRAIN_SECONDS: '1',
  }
  const config = readConfig({ ...env, DATA_DIR: path.join(folder, 'api') })
  const db = connectDatabase(postgres.connection, 8, () => {})
  await migrate(db)
  const closers: (() => Promise<unknown>)[] = [() => db.close()]
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer()
  }
  const keys = { jwt_secret: SECRET, encryption_keys: [SECRET] }
  const services = composeServices({ config, log: pino({ level: 'silent' }), db, keys, closers, close })
  const app = await createApp(services)
  const workers: ChildProcess[] = []
  let closing = false

  const world: World = {
    folder,
    services,
    inject: app.inject.bind(app) as World['inject'],
    workers,
    startWorker(index) {
      if (closing) return
      // Everything a worker starts inherits the folder in PATH: that is how its processes are found at the end.
      workers[index] = spawn(process.execPath, [MAIN, 'worker'], {
        env: { ...env, PATH: `${process.env.PATH}:${folder}`, DATA_DIR: path.join(folder, `worker-${index}`) },
        stdio: 'ignore',
      })
      const worker = workers[index]
      // A worker that found no database at its start has exited; like a process manager, start it again.
      worker.once('exit', (code) => {
        if (code === 1) setTimeout(() => workers[index] === worker && world.startWorker(index), 500)
      })
    },
    async restartDatabase() {
      await postgres.stop()
      postgres = await startEmbeddedPostgres(dataDir, 'chaos')
    },
    async stopWorkers() {
      closing = true
      for (const worker of workers) {
        worker.kill('SIGCONT')
        worker.kill('SIGTERM')
      }
      await Promise.all(workers.map(ended))
    },
    async close() {
      await world.stopWorkers()
      await app.close()
      await services.close()
      await postgres.stop()
    },
  }
  world.startWorker(0)
  world.startWorker(1)
  return world
}

const ended = (child: ChildProcess) =>
  child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve()
    : new Promise<void>((resolve) => child.once('exit', () => resolve()))

/** A small seeded generator (mulberry32): the same seed causes the same faults in the same order. */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

type Blow = (world: World, random: () => number) => Promise<void>

const blowKinds: [weight: number, name: string, blow: Blow][] = [
  [
    6,
    'executor killed',
    async (world, random) => {
      const executors = processesOf(world.folder).filter((pid) => commandOf(pid).includes('executors/executor.ts'))
      const victim = executors[Math.floor(random() * executors.length)]
      if (victim !== undefined) kill(victim, 'SIGKILL')
    },
  ],
  [
    3,
    'worker killed',
    async (world, random) => {
      const index = Math.floor(random() * world.workers.length)
      world.workers[index]!.kill('SIGKILL')
      await ended(world.workers[index]!)
      world.startWorker(index)
    },
  ],
  [
    2,
    'worker paused',
    async (world, random) => {
      const worker = world.workers[Math.floor(random() * world.workers.length)]!
      worker.kill('SIGSTOP')
      await delay(500 + random() * 4500)
      worker.kill('SIGCONT')
    },
  ],
  [
    1,
    'worker stopped',
    async (world, random) => {
      const index = Math.floor(random() * world.workers.length)
      world.workers[index]!.kill('SIGTERM')
      await ended(world.workers[index]!)
      world.startWorker(index)
    },
  ],
  [1, 'database restarted', (world) => world.restartDatabase()],
]

async function strike(
  world: World,
  random: () => number,
  blows: Record<string, number>,
  over: { value: boolean },
  say: ChaosOptions['say'],
): Promise<void> {
  const total = blowKinds.reduce((sum, [weight]) => sum + weight, 0)
  while (!over.value) {
    await delay(600 + random() * 1800)
    const [, name, blow] = choose(random() * total)
    if (over.value) return
    blows[name] = (blows[name] ?? 0) + 1
    say(`blow: ${name}`)
    await blow(world, random)
  }
}

function choose(point: number): (typeof blowKinds)[number] {
  let rest = point
  for (const kind of blowKinds) {
    rest -= kind[0]
    if (rest < 0) return kind
  }
  return blowKinds[0]!
}

async function register({ inject }: World): Promise<string> {
  const payload = {
    email: 'chaos@example.com',
    password: 'Choose-1-password',
    name: 'Chaos',
    organization_name: 'Chaos',
  }
  const answer = await inject({ method: 'POST', url: '/api/auth/register', payload })
  assert.equal(answer.statusCode, 201, answer.body)
  return answer.json().access_token
}

const configOf = (index: number, records: number) => ({
  name: `chaos ${index}`,
  source: {
    name: 'dummy',
    stream: index % 2 === 0 ? 'creatures' : 'plants',
    config: { records, seed: index, delay_ms: 4 },
  },
  destination: { name: 'file', config: {} },
  run: { max_attempts: 20, backoff_seconds: 1 },
})

async function createPipelines(
  { inject }: World,
  token: string,
  { pipelines, records }: ChaosOptions,
): Promise<string[]> {
  const ids: string[] = []
  for (let index = 0; index < pipelines; index++) {
    const payload = { name: `chaos ${index}`, config: configOf(index, records) }
    const answer = await inject({
      method: 'POST',
      url: '/api/pipelines',
      headers: { authorization: `Bearer ${token}` },
      payload,
    })
    assert.equal(answer.statusCode, 201, answer.body)
    ids.push(answer.json().id)
  }
  return ids
}

/** Spreads triggers over the time of the chaos. While the database is unavailable a trigger fails, and is repeated. */
async function triggerAll(
  world: World,
  token: string,
  pipelines: string[],
  { runs, seconds, say }: ChaosOptions,
): Promise<void> {
  const pauseMs = (seconds * 1000) / runs
  for (let made = 0; made < runs; ) {
    const url = `/api/pipelines/${pipelines[made % pipelines.length]}/run`
    const answer = await world.inject({ method: 'POST', url, headers: { authorization: `Bearer ${token}` } })
    if (answer.statusCode === 201) made++
    await delay(answer.statusCode === 201 ? pauseMs : 200)
  }
  say(`${runs} runs are triggered`)
}

async function untilAllFinished({ services }: World, { say }: ChaosOptions): Promise<void> {
  const deadline = Date.now() + 20 * 60_000
  for (let turn = 0; ; turn++) {
    const row = await services.db
      .first<{ left: number }>(sql`SELECT count(*) AS left FROM runs WHERE finished_at IS NULL`)
      .catch(() => null)
    if (row?.left === 0) return
    if (turn % 20 === 0 && row) say(`${row.left} runs have not ended`)
    assert.ok(Date.now() < deadline, `${row?.left} runs did not end`)
    await delay(250)
  }
}

async function verify(
  world: World,
  token: string,
  pipelines: string[],
  options: ChaosOptions,
): Promise<Omit<ChaosResult, 'blows'>> {
  const { db, blobs } = world.services
  const expected = await Promise.all(pipelines.map((_, index) => expectedHash(configOf(index, options.records))))
  const runs = await db.query<{
    id: string
    pipeline_id: string
    status: string
    error: string | null
    output_parts: StoredPart[] | null
  }>(sql`SELECT id, pipeline_id, status, error, output_parts FROM runs ORDER BY seq`)
  let resumed = 0
  for (const run of runs) {
    const url = `/api/pipelines/runs/${run.id}/logs`
    const log = await world.inject({ method: 'GET', url, headers: { authorization: `Bearer ${token}` } })
    assert.equal(log.statusCode, 200, log.body)
    resumed += log.body.split('Resuming after checkpoint').length - 1
    if (run.status === 'success') {
      const hash = createHash('sha256')
      for await (const piece of readParts(blobs, run.output_parts!)) hash.update(piece)
      assert.equal(
        hash.digest('hex'),
        expected[pipelines.indexOf(run.pipeline_id)],
        `the output of run ${run.id} differs from its source`,
      )
    } else {
      assert.equal(run.status, 'failed')
      assert.match(
        run.error!,
        /^internal: (the run was given up after its worker was lost 3 times|the executor exited)/,
      )
      assert.equal(run.output_parts, null)
    }
  }
  await verifyNothingIsLeft(world)
  const succeeded = runs.filter((run) => run.status === 'success').length
  return { runs: runs.length, succeeded, failed: runs.length - succeeded, resumed }
}

/** What the source produces without faults. */
async function expectedHash({ source }: ReturnType<typeof configOf>): Promise<string> {
  const context = {
    stream: source.stream,
    config: { ...source.config, delay_ms: 0 },
    signal: new AbortController().signal,
    state: null,
    resume: null,
    encoding: 'ndjson',
    sync: { mode: 'full_refresh' },
    columns: {},
  }
  const reading = await findSource('dummy')!.read(context as unknown as ReadContext)
  const hash = createHash('sha256')
  for await (const page of reading.pages as AsyncIterable<Page>) hash.update(page.bytes)
  return hash.digest('hex')
}

async function verifyNothingIsLeft(world: World): Promise<void> {
  const { db, blobs } = world.services
  await world.stopWorkers()
  const deadline = Date.now() + 5000
  while (processesOf(world.folder).length > 0) {
    assert.ok(Date.now() < deadline, `processes are left: ${processesOf(world.folder).map(commandOf).join('; ')}`)
    await delay(20)
  }
  await db.execute(sql`UPDATE runs SET finished_at = finished_at - interval '1 hour' WHERE stage_left`)
  for (let left = 1; left > 0; ) {
    await cleanUpOften(world.services)
    left = (await db.first<{ left: number }>(sql`SELECT count(*) AS left FROM runs WHERE stage_left`))!.left
  }
  await blobs.sweep(0)
  const named = await db.query<{ key: string }>(sql`
    SELECT part ->> 'key' AS key FROM runs, jsonb_array_elements(output_parts) AS part UNION ALL SELECT log_key FROM runs WHERE log_key IS NOT NULL`)
  const there: string[] = []
  for await (const { key } of blobs.list('')) there.push(key)
  assert.deepEqual(there.sort(), named.map(({ key }) => key).sort())
}

const commandOf = (pid: number): string => readProc(pid, 'cmdline').replaceAll('\0', ' ')

function processesOf(folder: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) =>
      readProc(pid, 'environ')
        .split('\0')
        .some((entry) => entry.startsWith('PATH=') && entry.endsWith(folder)),
    )
}

function readProc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // Gone already.
  }
}
