/**
 * A hundred random kills: runs in separate processes are killed with SIGKILL at any moment, or stopped so that they
 * come back as zombies after their successor has started, over all write modes and both ways of loading. Afterwards every
 * row must be in the target exactly once, by a checksum per row.
 *
 *   npm run bench:kills                         a hundred kills, some minutes
 *   npm run bench:kills -- --kills 20 --seed 7  fewer, and reproducible
 */
import './lib/help.ts'
import { type ChildProcess, fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type pg from 'pg'
import { createLocalBlobs } from '../server/src/blobs/local.ts'
import type { Sync } from '../server/src/connectors/contract.ts'
import { createEgress } from '../server/src/egress/policy.ts'
import { type Checkpoint, executeRun, type Job } from '../server/src/engine/execute.ts'
import { fingerprintOf } from '../server/src/engine/fingerprint.ts'
import { startServer } from '../server/test/harness/postgres-server.ts'

type FromChild = { save: Checkpoint } | { ready: true } | { done: true } | { failed: string }

/** One attempt, in a process that may be killed at any moment. */
async function attempt(job: Job, folder: string): Promise<void> {
  const answers: (() => void)[] = []
  process.on('message', (message) => {
    if (message === 'saved') answers.shift()?.()
  })
  const silent = () => undefined
  await executeRun(job, {
    blobs: createLocalBlobs(folder),
    egress: createEgress({ allow: ['127.0.0.1'], self: [] }),
    log: { debug: silent, info: silent, warn: silent, error: silent },
    signal: new AbortController().signal,
    fault: silent,
    mayBegin: silent,
    saveCheckpoint: (save) =>
      new Promise((resolve) => {
        answers.push(resolve)
        process.send!({ save })
      }),
    progress: silent,
    saveSchema: silent,
    checkpointEvery: { bytes: Number.MAX_SAFE_INTEGER, records: 3000, ms: 3_600_000 },
  })
}

interface Case {
  title: string
  stream: string
  sync: Partial<Sync>
}

const cases: Case[] = [
  {
    title: 'append, resuming',
    stream: 'public.rows',
    sync: { write: 'append', mode: 'incremental', cursor_field: 'at' },
  },
  { title: 'append, starting over', stream: 'public.rows', sync: { write: 'append' } },
  { title: 'replace', stream: 'public.rows', sync: { write: 'replace' } },
  {
    title: 'upsert, resuming',
    stream: 'public.rows',
    sync: { write: 'upsert', mode: 'incremental', cursor_field: 'at', primary_key: ['id'] },
  },
  { title: 'upsert, starting over', stream: 'public.rows', sync: { write: 'upsert', primary_key: ['id'] } },
]

const defaults: Sync = {
  mode: 'full_refresh',
  cursor_field: null,
  write: 'replace',
  primary_key: [],
  schema_change: 'evolve',
  lookback_seconds: 0,
  allow_empty: false,
}

function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1103515245 + 12345) % 2147483648
    return state / 2147483648
  }
}

function spawnAttempt(job: Job, folder: string, save: (checkpoint: Checkpoint) => void) {
  const child = fork(fileURLToPath(import.meta.url), [], { env: { ...process.env, KILLS_CHILD: folder } })
  let over: string | null = null
  const ready = Promise.withResolvers<void>()
  const ended = new Promise<string>((resolve) => {
    child.on('message', (message: FromChild) => {
      if ('ready' in message) ready.resolve()
      else if ('save' in message) {
        save(message.save)
        if (child.connected) child.send('saved')
      } else over = 'done' in message ? 'done' : message.failed
    })
    child.once('exit', () => {
      ready.resolve()
      resolve(over ?? 'killed')
    })
  })
  child.send(job)
  return { child, ready: ready.promise, ended }
}

/** Lets the stopped processes continue to their end: they must find that the run is no longer theirs. */
async function wake(zombies: ChildProcess[]): Promise<void> {
  for (const zombie of zombies) {
    zombie.kill('SIGCONT')
    if (zombie.exitCode === null && zombie.signalCode === null) await once(zombie, 'exit')
  }
}

/** Runs a job to its end in spite of everything. Returns the number of kills. */
async function survive(
  first: Job,
  folder: string,
  deaths: number,
  usualMs: number,
  random: () => number,
): Promise<{ kills: number; zombies: number }> {
  let job = first
  let resume: Checkpoint | null = null
  const zombies: ChildProcess[] = []
  let kills = 0
  for (let left = deaths; ; left -= 1) {
    const { attempt: number } = job
    const { child, ready, ended } = spawnAttempt(job, folder, (checkpoint) => {
      // The run row accepts a checkpoint only from the attempt that owns it.
      if (number === job.attempt) resume = checkpoint
    })
    if (left > 0) {
      await ready
      const moment = delay(random() * usualMs)
      const early = await Promise.race([ended, moment.then(() => null)])
      if (early === null && random() < 0.25) {
        child.kill('SIGSTOP')
        zombies.push(child)
        kills += 1
      } else if (early === null) {
        child.kill('SIGKILL')
        await ended
        kills += 1
      } else if (early === 'done') {
        await wake(zombies)
        return { kills, zombies: zombies.length }
      }
      for (const zombie of zombies) if (random() < 0.5) zombie.kill('SIGCONT')
    } else {
      const end = await ended
      await wake(zombies)
      if (end === 'done') return { kills, zombies: zombies.length }
      throw new Error(`the last attempt ended with: ${end}`)
    }
    job = { ...job, attempt: job.attempt + 1, resume: structuredClone(resume) }
  }
}

/** Rows that are in one table more often than in the other, by their checksum. */
async function countDifferences(client: pg.Client, target: string): Promise<number> {
  const sums = (table: string) => `SELECT id, md5(row_to_json(t)::text) FROM ${table} t`
  const { rows } = await client.query(
    `SELECT (SELECT count(*) FROM (${sums('public.rows')} EXCEPT ALL ${sums(target)}) a) + (SELECT count(*) FROM (${sums(target)} EXCEPT ALL ${sums('public.rows')}) b) AS n`,
  )
  return Number(rows[0].n)
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      kills: { type: 'string', default: '100' },
      seed: { type: 'string', default: String(Date.now() % 100000) },
      rows: { type: 'string', default: '40000' },
    },
  })
  const random = createRandom(Number(values.seed))
  console.log(`seed ${values.seed}`)
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-kills-'))
  const server = await startServer({})
  try {
    const client = await server.connect('postgres')
    await client.query(
      `CREATE TABLE public.rows (id int8 PRIMARY KEY, name text, amount numeric, at timestamptz, tags jsonb)`,
    )
    await client.query(
      `INSERT INTO public.rows SELECT g, 'näme ' || g || E'\\n\\t\\\\', g / 7.0, timestamptz '2024-01-01' + g / 100 * interval '1 second', jsonb_build_array(g, 'x') FROM generate_series(1, ${Number(values.rows)}::int8) g`,
    )
    let kills = 0
    let zombies = 0
    let seq = 0
    /** How long a run of each case takes undisturbed: kills are spread over that time. */
    const usualMs: number[] = []
    for (let round = 0; kills < Number(values.kills); round += 1) {
      const { title, stream, sync } = cases[round % cases.length]!
      const schema = `target_${round}`
      seq += 1
      const sketch: Omit<Job, 'fingerprint'> = {
        run_id: randomUUID(),
        seq,
        attempt: 1,
        token: randomUUID(),
        installation: randomUUID(),
        organization_id: '00000000-0000-4000-8000-000000000001',
        pipeline_id: randomUUID(),
        source: {
          name: 'postgres',
          stream,
          authentication: { type: 'none', params: {} },
          config: { url: server.url() },
        },
        destination: { name: 'postgres', config: { url: server.url(), schema, table: 'rows' } },
        sync: { ...defaults, ...sync },
        columns: {},
        keep_output: true,
        state: null,
        resume: null,
        schema: null,
        outputs: {},
      }
      const job: Job = { ...sketch, fingerprint: fingerprintOf(sketch, null) }
      const undisturbed = round < cases.length
      const began = performance.now()
      const deaths = undisturbed ? 0 : 1 + Math.floor(random() * 4)
      const survived = await survive(job, folder, deaths, usualMs[round % cases.length] ?? 0, random)
      if (undisturbed) usualMs.push(performance.now() - began)
      kills += survived.kills
      zombies += survived.zombies
      const differences = await countDifferences(client, `${schema}.rows`)
      const { rows: left } = await client.query(
        "SELECT relname FROM pg_class WHERE relname LIKE '\\_sluice\\_s\\_%' AND relkind = 'r'",
      )
      if (differences > 0 || left.length > 0) {
        throw new Error(
          `${title}: ${differences} rows lost or duplicated, ${left.length} stages left; again with --seed ${values.seed}`,
        )
      }
      console.log(`${title}: ${survived.kills} kills, every row exactly once (${kills} in all)`)
      await client.query(`DROP SCHEMA ${schema} CASCADE`)
    }
    console.log(`${kills} kills, ${zombies} of them zombies: every row is there exactly once, and no stage is left`)
  } finally {
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

if (process.env.KILLS_CHILD) {
  const folder = process.env.KILLS_CHILD
  process.once('message', (job: Job) => {
    process.send!({ ready: true })
    attempt(job, folder).then(
      () => process.send!({ done: true }, () => process.exit(0)),
      (error: Error) => process.send!({ failed: error.message }, () => process.exit(1)),
    )
  })
} else await main()
