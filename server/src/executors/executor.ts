/**
 * The executor: the process in which one run after another does its work. It has a process group of its own, an empty
 * environment and no connection to the platform's database. Whatever it wants kept it asks of its worker, and when the
 * worker is gone it ends.
 */

import { openBlobs } from '../blobs/open.ts'
import { configureCells } from '../cell/provider.ts'
import { createRedactor } from '../cell/redact.ts'
import { createFetch } from '../connectors/authentication/fetch.ts'
import type { RefreshTokens } from '../connectors/authentication/refresh-tokens.ts'
import { ConnectorError, type RunLog, type Source } from '../connectors/contract.ts'
import { duckdbWasOpened } from '../connectors/duckdb.ts'
import { createRedact } from '../connectors/settings/redact.ts'
import { createEgress } from '../egress/policy.ts'
import { usualSizes } from '../engine/checkpoints.ts'
import { executeRun } from '../engine/execute.ts'
import type { Host, Job } from '../engine/job.ts'
import type { ExecutorSettings, FromExecutor, ToExecutor } from './messages.ts'
import { trimError } from './reports.ts'

let settings: ExecutorSettings | undefined
let base: Pick<Host, 'blobs' | 'egress'> | undefined
let nextId = 1
const waiting = new Map<number, { resolve: (answer: string) => void; reject: (error: Error) => void }>()

const send = (message: FromExecutor): void => {
  process.send?.(message)
}

process.on('disconnect', () => process.exit(0))
process.on('message', (message: ToExecutor) => {
  switch (message.type) {
    case 'settings':
      settings = message.settings
      base = { blobs: openBlobs(settings.blobs), egress: createEgress(settings.egress) }
      configureCells(settings.cell)
      return send({ type: 'ready' })
    case 'run':
      return void perform(message.job)
    case 'saved':
      waiting.get(message.id)?.resolve('')
      return void waiting.delete(message.id)
    case 'refresh_token':
      waiting.get(message.id)?.resolve(message.token)
      return void waiting.delete(message.id)
    case 'refused':
      waiting.get(message.id)?.reject(new ConnectorError('internal', message.message))
      return void waiting.delete(message.id)
  }
})

/** Asks the worker for something and waits for its answer. */
const ask = (question: (id: number) => FromExecutor): Promise<string> =>
  new Promise((resolve, reject) => {
    const id = nextId++
    waiting.set(id, { resolve, reject })
    send(question(id))
  })

/** They are stored by the worker, which alone reaches the database. */
const refreshTokens: RefreshTokens = {
  begin: (held) => ask((id) => ({ type: 'refresh_begin', id, held })),
  end: (used, rotated) => ask((id) => ({ type: 'refresh_end', id, used, rotated })),
}

async function perform(job: Job): Promise<void> {
  const log = batchedLog()
  try {
    const outcome = await executeRun(job, hostOf(log))
    log.flush()
    // DuckDB over a tenant's file is a large native parser fed with foreign bytes: what it may have done ends with the process.
    send({ type: 'success', outcome, reusable: !duckdbWasOpened() })
  } catch (error) {
    log.flush()
    const known = error instanceof ConnectorError ? error : null
    const message = known?.message ?? `An unforeseen error: ${error instanceof Error ? error.message : String(error)}`
    send({
      type: 'failure',
      kind: known?.kind ?? 'internal',
      message: trimError(log.redact(message)),
      transient: known?.transient ?? false,
    })
  }
}

function hostOf(log: BatchedLog): Host {
  const aborted = new AbortController()
  return {
    ...base!,
    log,
    signal: aborted.signal,
    fault() {},
    checkpointEvery: { ...usualSizes, ms: settings!.checkpointMs },
    // A cancel ends this whole process, so there is never one that was heard and did not.
    mayBegin() {},
    async saveCheckpoint(checkpoint) {
      await ask((id) => ({ type: 'checkpoint', id, checkpoint }))
    },
    authenticate(authentication, signal) {
      const fetch = createFetch({ egress: base!.egress, authentication, signal, refreshTokens })
      log.hide(() => fetch.obtained)
      return fetch
    },
    progress: (counts) => send({ type: 'progress', counts }),
    saveSchema: (columns, changes) => send({ type: 'schema', columns, changes }),
    async resolveSource(source) {
      const { pythonSource } = await import('../cell/python-source.ts')
      return pythonSource({
        source_name: source.name,
        display_name: source.name,
        description: '',
        code: source.custom!.code,
        streams: [source.stream],
      }) as unknown as Source
    },
  }
}

interface BatchedLog extends RunLog {
  flush(): void
  /** Keeps these out of the log from now on: tokens that were obtained while the run goes on, unknown to the worker. */
  hide(secrets: () => readonly string[]): void
  redact(text: string): string
}

/** Lines that come in the same turn travel together. */
function batchedLog(): BatchedLog {
  let hidden: () => readonly string[] = () => []
  const redact = createRedactor(() => hidden(), createRedact)
  let entries: Extract<FromExecutor, { type: 'log' }>['entries'] = []
  const flush = () => {
    if (entries.length > 0) send({ type: 'log', entries })
    entries = []
  }
  const add = (level: (typeof entries)[number][0]) => (message: string) => {
    if (entries.push([level, redact(message)]) === 1) setImmediate(flush)
  }
  return {
    debug: add('debug'),
    info: add('info'),
    warn: add('warn'),
    error: add('error'),
    flush,
    redact,
    hide(secrets) {
      hidden = secrets
    },
  }
}
