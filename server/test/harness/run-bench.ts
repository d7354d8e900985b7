/**
 * Executes runs without the service: a blob folder, an egress that may reach this machine, and a small stand-in for the
 * run rows (attempt, last checkpoint). Attempts can be crashed at a fault point. A crash freezes the attempt there
 * forever and destroys its sockets, like a machine that lost its power; a zombie is frozen with its
 * sockets open and may be resumed later.
 */
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import type { BlobStore } from '../../src/blobs/blobs.ts'
import { createLocalBlobs } from '../../src/blobs/local.ts'
import { readParts } from '../../src/blobs/part-reader.ts'
import { createFetch } from '../../src/connectors/authentication/fetch.ts'
import type { RefreshTokens } from '../../src/connectors/authentication/refresh-tokens.ts'
import { type Column, ConnectorError, type Destination, type Source, type Sync } from '../../src/connectors/contract.ts'
import { createEgress, type Egress } from '../../src/egress/policy.ts'
import {
  type Checkpoint,
  type Counts,
  executeRun,
  type Host,
  type Job,
  type Outcome,
  type Part,
} from '../../src/engine/execute.ts'
import { fingerprintOf } from '../../src/engine/fingerprint.ts'

export const fullRefresh: Sync = {
  mode: 'full_refresh',
  cursor_field: null,
  write: 'replace',
  primary_key: [],
  schema_change: 'evolve',
  lookback_seconds: 0,
  allow_empty: false,
}

export interface JobParts {
  source:
    | {
        name: string
        stream?: string
        config?: Record<string, unknown>
        authentication?: Job['source']['authentication']
      }
    | Source
  destination: { name: string; config?: Record<string, unknown> }
  sync?: Partial<Sync>
}

export interface AttemptOptions {
  /** Called at every fault point; a promise holds the attempt there, an error fails it. */
  fault?: (point: string) => Promise<void> | void
  signal?: AbortSignal
  destination?: Destination
  blobs?: BlobStore
  /** Where refresh tokens are kept that a provider replaces. */
  refreshTokens?: RefreshTokens
  /** A checkpoint after so many records. */
  checkpointRecords?: number
  /** How much of a checkpoint the destination may hold in memory. */
  holdBytes?: number
}

export interface Attempt {
  done: Promise<Outcome>
  /** Lines as `level message`. */
  log: string[]
  /** Every fault point that was passed, in order. */
  points: string[]
  /** Checkpoints that the destination has committed. */
  commits: number
  progress: Counts[]
  schemas: { columns: Column[]; changes: string[] }[]
  /** From now on no checkpoint may begin, and the signal is aborted. */
  cancel(): void
  /** Ends every connection of the attempt, as the death of its machine would. */
  cut(): void
}

interface RunRow {
  attempt: number
  resume: Checkpoint | null
}

export interface RunBench {
  blobs: BlobStore
  folder: string
  egress: Egress
  /** Registers a source that is not in the registry. */
  use(source: Source): void
  job(parts: JobParts, overrides?: Partial<Job>): Job
  /** The next attempt of the same run, with what the earlier ones saved. */
  again(job: Job): Job
  /** The next run of the same pipeline. */
  next(job: Job, outcome: Outcome | null, overrides?: Partial<Job>): Job
  start(job: Job, options?: AttemptOptions): Attempt
  run(job: Job, options?: AttemptOptions): Promise<Outcome>
  /** Runs until the point is passed for the nth time, then crashes there. False: the point was never reached. */
  crash(job: Job, point: string, nth: number, options?: AttemptOptions): Promise<boolean>
  /** What a reader has of a destination with this config: the result of the last run that succeeded, or null. */
  lastOutcome(config: Record<string, unknown>): Outcome | null
  readOutput(outcome: Outcome): Promise<Buffer>
  readParts(parts: readonly Part[]): Promise<Buffer>
  /** The list of the quarantine that was saved last with the run. */
  savedQuarantine(job: Job): Part[]
  close(): Promise<void>
}

let lastSeq = 100

export async function openRunBench(): Promise<RunBench> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-runs-'))
  const blobs = createLocalBlobs(folder)
  const egress = createEgress({ allow: ['127.0.0.0/8', 'localhost'], self: [] })
  const rows = new Map<string, RunRow>()
  const sources = new Map<string, Source>()
  const successes = new Map<string, { job: Job; outcome: Outcome }>()

  /** As the worker finds it. */
  function findPrevious({ pipeline_id, fingerprint }: Job): NonNullable<Job['previous']> | null {
    const last = successes.get(pipeline_id)
    if (!last?.outcome.output || last.job.fingerprint.destination !== fingerprint.destination) return null
    return { run_id: last.job.run_id, parts: last.outcome.output.parts }
  }

  function start(job: Job, options: AttemptOptions = {}): Attempt {
    const row = rows.get(job.run_id) ?? { attempt: 0, resume: null }
    rows.set(job.run_id, row)
    row.attempt = Math.max(row.attempt, job.attempt)
    const stop = new AbortController()
    const sockets = new Set<Socket>()
    const attempt: Omit<Attempt, 'done'> = {
      log: [],
      points: [],
      commits: 0,
      progress: [],
      schemas: [],
      cancel: () => stop.abort(new ConnectorError('internal', 'The run was cancelled.')),
      cut: () => {
        for (const socket of sockets) socket.destroy()
      },
    }
    const write = (level: string) => (message: string) => void attempt.log.push(`${level} ${message}`)
    const host: Host = {
      blobs: options.blobs ?? blobs,
      egress: {
        ...egress,
        connect: async (...target) => {
          const socket = await egress.connect(...target)
          sockets.add(socket)
          return socket
        },
      },
      ...(options.refreshTokens && {
        authenticate: (authentication, signal) =>
          createFetch({ egress, authentication, signal, refreshTokens: options.refreshTokens! }),
      }),
      log: { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') },
      signal: options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal,
      fault(point) {
        attempt.points.push(point)
        if (point === 'commit:after') attempt.commits += 1
        return options.fault?.(point)
      },
      mayBegin: () => stop.signal.throwIfAborted(),
      async saveCheckpoint(checkpoint) {
        if (row.attempt !== job.attempt) throw new ConnectorError('internal', 'This attempt was fenced by the run row.')
        row.resume = structuredClone(checkpoint)
      },
      progress: (counts) => void attempt.progress.push(counts),
      saveSchema: (columns, changes) => void attempt.schemas.push({ columns, changes }),
      ...(options.checkpointRecords
        ? { checkpointEvery: { bytes: Number.MAX_SAFE_INTEGER, records: options.checkpointRecords, ms: 3_600_000 } }
        : {}),
      ...(options.holdBytes === undefined ? {} : { holdBytes: options.holdBytes }),
      resolveSource: async (source) => sources.get(source.name)!,
      resolveDestination: (name) => (options.destination?.name === name ? options.destination : undefined),
    }
    const done = executeRun({ ...job, previous: job.previous ?? findPrevious(job) }, host).then((outcome) => {
      successes.set(job.pipeline_id, { job, outcome })
      return outcome
    })
    done.catch(() => undefined)
    return Object.assign(attempt, { done })
  }

  return {
    blobs,
    folder,
    egress,
    start,
    use: (source) => void sources.set(source.name, source),

    job({ source, destination, sync }, overrides = {}) {
      const custom = 'read' in source
      if (custom) sources.set(source.name, source)
      const job: Omit<Job, 'fingerprint'> = {
        run_id: randomUUID(),
        seq: ++lastSeq,
        attempt: 1,
        token: randomUUID(),
        installation: 'this one',
        organization_id: '00000000-0000-4000-8000-000000000001',
        pipeline_id: randomUUID(),
        source: {
          name: source.name,
          stream: custom ? 'rows' : (source.stream ?? 'creatures'),
          authentication: (custom ? undefined : source.authentication) ?? { type: 'none', params: {} },
          config: custom ? {} : (source.config ?? {}),
          ...(sources.has(source.name) ? { custom: { code: '', version: 1 } } : {}),
        },
        destination: { name: destination.name, config: destination.config ?? {} },
        sync: { ...fullRefresh, ...sync },
        columns: {},
        keep_output: true,
        state: null,
        resume: null,
        schema: null,
        outputs: {},
        ...overrides,
      }
      return { fingerprint: fingerprintOf(job, null), ...job }
    },

    again: (job) => ({
      ...job,
      attempt: job.attempt + 1,
      token: randomUUID(),
      resume: structuredClone(rows.get(job.run_id)?.resume ?? null),
    }),

    next: (job, outcome, overrides = {}) => ({
      ...job,
      run_id: randomUUID(),
      seq: ++lastSeq,
      attempt: 1,
      token: randomUUID(),
      resume: null,
      state: outcome ? { seq: job.seq, cursor: outcome.cursor, fingerprint: job.fingerprint } : job.state,
      ...overrides,
    }),

    run: (job, options) => start(job, options).done,

    async crash(job, point, nth, options = {}) {
      let seen = 0
      let arrive: (reached: boolean) => void = () => undefined
      const arrived = new Promise<boolean>((resolve) => {
        arrive = resolve
      })
      const attempt = start(job, {
        ...options,
        fault: (passed) => {
          if (passed !== point || ++seen !== nth) return undefined
          arrive(true)
          return new Promise<void>(() => undefined)
        },
      })
      const reached = await Promise.race([arrived, attempt.done.then(() => false)])
      if (reached) attempt.cut()
      return reached
    },

    lastOutcome(config) {
      const wanted = JSON.stringify(config)
      const found = [...successes.values()].findLast(({ job }) => JSON.stringify(job.destination.config) === wanted)
      return found?.outcome ?? null
    },
    readOutput: (outcome) => buffer(readParts(blobs, outcome.output?.parts ?? [])),
    readParts: (parts) => buffer(readParts(blobs, parts)),
    savedQuarantine: (job) => rows.get(job.run_id)?.resume?.quarantine ?? [],

    async close() {
      await egress.close()
      // A failed attempt may still be writing a part.
      await rm(folder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
