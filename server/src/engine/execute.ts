/**
 * Runs one attempt: source → stage → destination. It has no database and knows no processes; what it needs of either it
 * asks of its host.
 *
 * Two loops work side by side over a bounded channel. The **reader** takes pages from the source and appends them to the
 * stage. The **loader** hands them to the destination. At a checkpoint the reader seals the stage's part and goes on
 * reading, while the loader keeps the order on which exactly-once rests:
 *
 *   part durable → checkpoint saved with us → committed in the destination with its mark → next page
 *
 * A crash between any two of these leaves a mark that says how far the destination came, and parts that reach at least
 * as far; point.ts decides from both where the next attempt begins. Each arrow has a fault point before and after it.
 */
import { runPrefix } from '../blobs/run-keys.ts'
import type { Load, Page, Reading } from '../connectors/contract.ts'
import type { Json } from '../json/json.ts'
import { type Channel, createChannel } from './channel.ts'
import { createCheckpointRule } from './checkpoints.ts'
import { columnChooser } from './columns.ts'
import {
  asFailure,
  type Endpoints,
  fenceContext,
  findEndpoints,
  hasColumnChoice,
  loadContext,
  readContext,
} from './endpoints.ts'
import type { Counts, Host, Job, Outcome, Output, Part } from './job.ts'
import { finishOutput, outputShape } from './output.ts'
import { discardPages, followPages } from './pages.ts'
import { decideStart, type Point, type Start, writePoint } from './resume-point.ts'
import { createRunReport } from './run-report.ts'
import { noStage, openStage, type Stage } from './stage.ts'

export type * from './job.ts'

/** How much may lie between the reader and the loader: enough to read on while a part is synced and committed. */
const CHANNEL_BYTES = 8 * 1024 * 1024

type Item = { page: Page } | { checkpoint: PendingCheckpoint }

interface PendingCheckpoint {
  number: number
  cursor: Json
  records_read: number
  sealed: Promise<Part | null>
  /** The last one of the run: the source has nothing more. */
  done: boolean
}

/** Everything one attempt carries along. */
interface Attempt {
  job: Job
  host: Host
  endpoints: Endpoints
  start: Start
  /** Aborted by the host's signal and by a failure of the other loop. */
  signal: AbortSignal
  stage: Stage
  counts: Counts
  parts: Part[]
  checkpoint: number
  cursor: Json
  encoding: Reading['encoding']
  /** Whether this reading can go on from a cursor. */
  resumable: boolean
}

export async function executeRun(job: Job, host: Host): Promise<Outcome> {
  const endpoints = await findEndpoints(job, host)
  const { source, destination } = endpoints
  const report = createRunReport(job, host, endpoints)
  const mark = await step(host, 'fence', () => destination.fence(fenceContext(job, host, endpoints))).catch(
    blame(host, 'destination'),
  )
  const start = decideStart(job, mark, destination.capabilities.commits, source.capabilities.resumable)
  report.begin(start)
  const attempt = await moveRecords(job, host, endpoints, start, report.progress)
  const output = await makeOutput(attempt)
  report.end(attempt.counts, output)
  return { output, cursor: job.sync.mode === 'incremental' ? attempt.cursor : null, ...attempt.counts }
}

async function moveRecords(
  job: Job,
  host: Host,
  endpoints: Endpoints,
  start: Start,
  progress: (counts: Counts) => void,
): Promise<Attempt> {
  const stop = new AbortController()
  const signal = AbortSignal.any([host.signal, stop.signal])
  const shape = outputShape(endpoints)
  const { records_read, records_written, bytes_written } = start
  const attempt: Attempt = {
    job,
    host,
    endpoints,
    start,
    signal,
    stage: job.keep_output
      ? openStage({
          blobs: host.blobs,
          prefix: runPrefix({ id: job.run_id, organization_id: job.organization_id }),
          attempt: job.attempt,
          gzip: shape.format === 'jsonl' && shape.compression === 'gzip',
        })
      : noStage,
    counts: { records_read, records_written, bytes_written },
    parts: [...start.parts],
    checkpoint: start.checkpoint,
    cursor: start.resume ?? start.state,
    encoding: start.encoding ?? 'ndjson',
    resumable: endpoints.source.capabilities.resumable,
  }
  if (start.published) return { ...attempt, cursor: start.state }

  const reading = await step(host, 'read', () =>
    endpoints.source.read(readContext(job, host, signal, endpoints, start)),
  ).catch(blame(host, 'source'))
  attempt.encoding = reading.encoding
  attempt.resumable = reading.resumable ?? attempt.resumable
  const load = await step(host, 'open', () =>
    endpoints.destination.open(loadContext(job, host, signal, endpoints, reading)),
  ).catch(async (error) => {
    stop.abort(error)
    await discardPages(reading.pages)
    return blame(host, 'destination')(error)
  })
  const channel = createChannel<Item>(CHANNEL_BYTES)
  let failure: { error: unknown } | null = null
  const fail = (error: unknown): void => {
    failure ??= { error }
    channel.fail(error)
    stop.abort(error)
  }
  await Promise.all([
    readPages(attempt, reading, channel).catch(fail),
    loadPages(attempt, load, channel, progress).catch(fail),
  ])
  if (!failure) await publish(attempt, load).catch(fail)
  if (failure) {
    host.progress({ ...attempt.counts })
    await attempt.stage.abort().catch(() => undefined)
    await load.abort().catch((error) => host.log.debug(`The destination could not clean up: ${String(error)}`))
    throw (failure as { error: unknown }).error
  }
  return attempt
}

async function readPages(attempt: Attempt, reading: Reading, channel: Channel<Item>): Promise<void> {
  const { job, host, stage, endpoints, start, counts, resumable } = attempt
  const { columns } = endpoints.source.capabilities
  const choose = hasColumnChoice(job) && !columns ? columnChooser(job.columns) : null
  const rule = createCheckpointRule(host.checkpointEvery)
  let number = attempt.checkpoint
  let cursor = attempt.cursor

  const begin = async (done: boolean): Promise<void> => {
    rule.begin()
    await touch(host, 'seal:before')
    const sealed = stage.seal(++number)
    // It may fail while the loader is still busy with earlier pages; whoever awaits it hears of it.
    sealed.catch(() => undefined)
    await channel.push({ checkpoint: { number, cursor, records_read: counts.records_read, sealed, done } }, 0)
  }
  const pages = followPages(reading.pages, attempt.signal)
  try {
    while (true) {
      const { value: page, done } = await pages.next().catch(blame(host, 'source'))
      if (done) break
      // Everything was read by an earlier attempt; the rest of what it saw behind its last cursor is in already.
      if (start.done) continue
      const chosen = choose ? chooseColumns(choose, page) : page
      counts.records_read += page.records
      if (page.cursor !== undefined) cursor = page.cursor
      await stage.append(chosen.bytes, chosen.records).catch(blame(host, 'internal'))
      await channel.push({ page: chosen }, chosen.bytes.length)
      rule.add(chosen.bytes.length, chosen.records)
      if ((page.cursor !== undefined || !resumable) && rule.due()) await begin(false)
    }
  } finally {
    // Where the stage or the loader failed, the source still has to let go of what it holds.
    await pages.return(undefined)
  }
  if (rule.pending()) await begin(true)
  channel.close()
}

/** A line that is not JSON is found here first, and it is the source that gave it. */
function chooseColumns(choose: (page: Page) => Page, page: Page): Page {
  try {
    return choose(page)
  } catch (error) {
    throw asFailure(error, 'source')
  }
}

async function loadPages(
  attempt: Attempt,
  load: Load,
  channel: Channel<Item>,
  progress: (counts: Counts) => void,
): Promise<void> {
  const { host, counts } = attempt
  for (let item = await channel.next(); item !== null; item = await channel.next()) {
    if ('checkpoint' in item) {
      await commitCheckpoint(attempt, load, item.checkpoint)
      continue
    }
    const { page } = item
    await step(host, 'write', () => load.write(page)).catch(blame(host, 'destination'))
    counts.records_written += page.records
    counts.bytes_written += page.bytes.length
    progress(counts)
  }
}

async function commitCheckpoint(attempt: Attempt, load: Load, pending: PendingCheckpoint): Promise<void> {
  const { host, job, endpoints } = attempt
  const part = await pending.sealed.catch(blame(host, 'internal'))
  await touch(host, 'seal:after')
  if (part) attempt.parts.push(part)
  host.mayBegin()
  const state = isVisibleAtCommit(attempt) ? newState(job, pending.cursor) : attempt.start.state
  const { number: checkpoint, records_read } = pending
  const { records_written, bytes_written } = attempt.counts
  const counts = { records_read, records_written, bytes_written }
  const cursor = pointOf(attempt, { resume: pending.cursor, state, done: pending.done, published: false, counts })
  // The finish of the run follows at once and saves the same; a crash before it costs this one checkpoint.
  const saves = !(pending.done && endpoints.destination.capabilities.commits === 'output')
  if (saves) {
    const saved = { checkpoint, cursor, parts: [...attempt.parts], ...counts }
    await step(host, 'save', () => host.saveCheckpoint(saved))
  }
  await step(host, 'commit', () => load.commit(checkpoint, cursor)).catch(blame(host, 'destination'))
  attempt.checkpoint = checkpoint
  attempt.cursor = pending.cursor
  host.committed({ checkpoint, cursor, state })
}

async function publish(attempt: Attempt, load: Load): Promise<void> {
  const { host, job, cursor, checkpoint, counts } = attempt
  host.mayBegin()
  const state = newState(job, cursor)
  const point = pointOf(attempt, { resume: cursor, state, done: true, published: true, counts })
  await step(host, 'publish', () => load.publish(checkpoint, point)).catch(blame(host, 'destination'))
}

/** Whether rows can be seen once their checkpoint is committed, so that the next run must not read them again. */
function isVisibleAtCommit({ job, endpoints, resumable }: Attempt): boolean {
  return endpoints.destination.capabilities.commits === 'mark' && resumable && job.sync.write !== 'replace'
}

function newState(job: Job, cursor: Json): Json {
  return job.sync.mode === 'incremental' ? cursor : null
}

function pointOf(attempt: Attempt, rest: Pick<Point, 'resume' | 'state' | 'done' | 'published' | 'counts'>): Json {
  const { encoding, resumable } = attempt
  return writePoint({ seq: attempt.job.seq, encoding, resumable, ...rest })
}

async function makeOutput(attempt: Attempt): Promise<Output | null> {
  const { job, host, endpoints, parts, encoding, checkpoint } = attempt
  if (!job.keep_output) return null
  return step(host, 'output', () =>
    finishOutput({
      blobs: host.blobs,
      key: `${runPrefix({ id: job.run_id, organization_id: job.organization_id })}${job.attempt}-output.part`,
      shape: outputShape(endpoints),
      encoding,
      parts,
      checkpoint,
      signal: host.signal,
      log: host.log,
    }),
  ).catch(blame(host, 'internal'))
}

/** One step of the protocol, with its fault points. */
async function step<T>(host: Host, name: string, act: () => Promise<T>): Promise<T> {
  await touch(host, `${name}:before`)
  const result = await act()
  await touch(host, `${name}:after`)
  return result
}

function touch(host: Host, point: string): Promise<void> | void {
  return host.fault(point)
}

/** Turns an unforeseen error into a failure of the party at work; a cancel or time-out stays what it is. */
function blame(host: Host, kind: Parameters<typeof asFailure>[1]): (error: unknown) => never {
  return (error) => {
    if (host.signal.aborted) throw host.signal.reason
    throw asFailure(error, kind)
  }
}
