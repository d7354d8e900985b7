/** Inside an executor that serves runs. The worker stores everything that has to be kept. */

import { BlobStoreUnavailable } from '../blobs/blobs.ts'
import { openBlobs } from '../blobs/open.ts'
import { RUN_PATIENCE_MS } from '../blobs/s3.ts'
import { configureCells } from '../cell/provider.ts'
import { createRedactor } from '../cell/redact.ts'
import { createFetch, type HostFetch } from '../connectors/authentication/fetch.ts'
import type { RefreshTokens } from '../connectors/authentication/refresh-tokens.ts'
import { ConnectorError, type RunLog, type Source } from '../connectors/contract.ts'
import { duckdbWasOpened } from '../connectors/duckdb.ts'
import { hasOpenedFile } from '../connectors/opened-files.ts'
import { loadManifests, savedManifest } from '../connectors/registry.ts'
import { createRedact } from '../connectors/settings/redact.ts'
import { createEgress } from '../egress/policy.ts'
import { usualSizes } from '../engine/checkpoints.ts'
import { executeRun } from '../engine/execute.ts'
import type { Host, Job } from '../engine/job.ts'
import { loadUndici } from '../undici.ts'
import type { Channel } from './channel.ts'
import type { FromExecutor, RunSettings, Served } from './messages.ts'
import { Questions, storedByService } from './questions.ts'
import { cutMessage } from './reports.ts'

type Send = (message: FromExecutor) => void

export function serveRuns(settings: RunSettings, channel: Channel): Served {
  const send: Send = (message) => channel.send(message)
  const questions = new Questions()
  const host = openHost(settings, send, questions)
  return {
    // All else was loaded with this file.
    async preload() {
      await loadManifests()
      loadUndici()
    },
    receive(message) {
      if (message.type === 'run') void performRun(message.job, host, send)
      else questions.answer(message)
    },
  }
}

/** What a run needs, apart from its log. */
function openHost(settings: RunSettings, send: Send, questions: Questions): (log: BatchedLog) => Host {
  const base = { blobs: openBlobs(settings.blobs, RUN_PATIENCE_MS), egress: createEgress(settings.egress) }
  configureCells(settings.cell)
  const refreshTokens: RefreshTokens = storedByService(questions, send)
  return (log) => ({
    ...base,
    log,
    signal: new AbortController().signal,
    fault() {},
    checkpointEvery: { ...usualSizes, ms: settings.checkpointMs },
    // A cancel kills this whole process, so there is nothing to check.
    mayBegin() {},
    async saveCheckpoint(checkpoint) {
      await questions.ask((id) => send({ type: 'checkpoint', id, checkpoint }))
    },
    authenticate(authentication, signal) {
      const fetch = createFetch({ egress: base.egress, authentication, signal, refreshTokens })
      log.note(fetch)
      return fetch
    },
    progress: (counts) => send({ type: 'progress', counts }),
    saveSchema: (columns, changes) => send({ type: 'schema', columns, changes }),
    resolveSource: openCustomSource,
  })
}

async function performRun(job: Job, hostOf: (log: BatchedLog) => Host, send: Send): Promise<void> {
  const log = batchedLog(send)
  try {
    const outcome = await executeRun(job, hostOf(log)).finally(() => log.settled())
    log.flush()
    // These are large native parsers fed with foreign bytes: whatever they may have done ends with the process.
    send({ type: 'success', outcome, reusable: !duckdbWasOpened() && !hasOpenedFile() })
  } catch (error) {
    log.flush()
    const known = error instanceof ConnectorError ? error : null
    const away = error instanceof BlobStoreUnavailable
    const text = error instanceof Error ? error.message : String(error)
    const message = known || away ? text : `An unexpected error: ${text}`
    send({
      type: 'failure',
      kind: known?.kind ?? 'internal',
      message: cutMessage(log.redact(message)),
      transient: known?.transient ?? away,
    })
  }
}

async function openCustomSource(source: Job['source']): Promise<Source> {
  const { code, language } = source.custom!
  if (language === 'manifest') {
    return savedManifest(source.name, code) as unknown as Source
  }
  const { pythonSource } = await import('../cell/python-source.ts')
  return pythonSource({
    source_name: source.name,
    display_name: source.name,
    description: '',
    code,
    streams: [source.stream],
  }) as unknown as Source
}

interface BatchedLog extends RunLog {
  flush(): void
  /** Keeps the tokens that this fetch obtains out of the log; the worker does not know them. */
  note(fetch: HostFetch): void
  /** Resolves when no token request is in flight. */
  settled(): Promise<void>
  redact(text: string): string
}

/** Lines written in the same tick are sent together. */
function batchedLog(send: Send): BatchedLog {
  let noted: HostFetch | null = null
  const redact = createRedactor(() => noted?.obtained ?? [], createRedact)
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
    settled: async () => noted?.settled(),
    note(fetch) {
      noted = fetch
    },
  }
}
