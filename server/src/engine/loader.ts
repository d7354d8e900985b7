/**
 * The loading loop of an attempt: pages into the destination, and at each checkpoint the order that exactly-once relies on.
 *
 *   part durable → checkpoint saved with us → committed in the destination → next page
 */
import { readParts } from '../blobs/part-reader.ts'
import { ConnectorError, type Load, type Page } from '../connectors/contract.ts'
import type { Json } from '../json/json.ts'
import { cutLines } from '../json/lines.ts'
import { type Attempt, blame, reportedCounts, saveCheckpoint, step } from './attempt.ts'
import type { Channel } from './channel.ts'
import type { Counts, Job, Part } from './job.ts'
import type { Item, PendingCheckpoint } from './reader.ts'
import { type DoubtfulBatch, type Point, writePoint } from './resume-point.ts'
import { findStateFault } from './state-limits.ts'

export async function loadPages(
  attempt: Attempt,
  load: Load,
  channel: Channel<Item>,
  progress: (counts: Counts) => void,
): Promise<void> {
  const { host, counts, start } = attempt
  if (start.doubtful) await sendAgain(attempt, load, start.doubtful)
  for (let item = await channel.next(); item !== null; item = await channel.next()) {
    if ('checkpoint' in item) {
      await commitCheckpoint(attempt, load, item.checkpoint)
      continue
    }
    const { page } = item
    // The load may give the bytes back.
    const { length } = page.bytes
    await step(host, 'write', () => load.write(page)).catch(blame(host, 'destination'))
    counts.records_written += page.records
    counts.bytes_written = page.restart ? start.bytes_written : counts.bytes_written + length
    progress(reportedCounts(attempt, counts))
  }
}

/** The batch that an earlier attempt saved and that may or may not have arrived. */
async function sendAgain(attempt: Attempt, load: Load, batch: DoubtfulBatch): Promise<void> {
  const { host } = attempt
  host.mayBegin()
  for await (const page of readPages(attempt, batch.parts)) {
    await step(host, 'write', () => load.write(page)).catch(blame(host, 'destination'))
  }
  await step(host, 'commit', () => load.commit(batch.checkpoint, batch.cursor)).catch(blame(host, 'destination'))
  await sealQuarantine(attempt)
  attempt.checkpoint = batch.checkpoint
}

/** What cannot be read back is our fault, not that of the destination. */
async function* readPages({ host, encoding }: Attempt, parts: readonly Part[]): AsyncGenerator<Page> {
  try {
    const bytes = readParts(host.blobs, parts)
    if (encoding === 'parquet') yield* countParts(bytes, parts)
    else for await (const lines of cutLines(bytes)) yield { bytes: lines, records: countLines(lines) }
  } catch (error) {
    blame(host, 'internal')(error)
  }
}

/** How many records there are is known of the whole only, and counted with its first page. */
async function* countParts(chunks: AsyncIterable<Buffer>, parts: readonly Part[]): AsyncGenerator<Page> {
  let records = parts.reduce((sum, part) => sum + part.records, 0)
  for await (const bytes of chunks) {
    yield { bytes, records }
    records = 0
  }
}

function countLines(bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) count += 1
  return count
}

async function commitCheckpoint(attempt: Attempt, load: Load, pending: PendingCheckpoint): Promise<void> {
  const { host, job, endpoints } = attempt
  const part = await pending.sealed.catch(blame(host, 'internal'))
  await host.fault('seal:after')
  if (part) attempt.parts.push(part)
  host.mayBegin()
  const state = isVisibleAtCommit(attempt) ? newState(job, pending.cursor) : attempt.start.state
  const { number: checkpoint, records_read } = pending
  const { records_written, bytes_written } = attempt.counts
  const counts = { records_read, records_written, bytes_written }
  const cursor = pointOf(attempt, { resume: pending.cursor, state, done: pending.done, published: false, counts })
  refuseState(cursor)
  // Finishing the run follows at once and saves the same; a crash before it only costs this one checkpoint.
  const saves = !(pending.done && endpoints.destination.capabilities.commits === 'output')
  attempt.saved = { checkpoint, cursor, parts: [...attempt.parts], ...counts }
  attempt.complete = pending.done
  if (saves) await saveCheckpoint(attempt, 'save')
  await step(host, 'commit', () => load.commit(checkpoint, cursor)).catch(blame(host, 'destination'))
  if (isVisibleAtCommit(attempt)) attempt.committed = reportedCounts(attempt, counts)
  await sealQuarantine(attempt)
  attempt.checkpoint = checkpoint
  attempt.cursor = pending.cursor
}

/** What a destination with a mark refused was kept with its commit. For others it is listed with the next checkpoint. */
async function sealQuarantine({ host, quarantine }: Attempt): Promise<void> {
  await quarantine?.seal().catch(blame(host, 'internal'))
}

export async function publish(attempt: Attempt, load: Load): Promise<void> {
  const { host, job, cursor, checkpoint, counts } = attempt
  host.mayBegin()
  attempt.complete = true
  await attempt.quarantine?.checkShare()
  const state = newState(job, cursor)
  const point = pointOf(attempt, { resume: cursor, state, done: true, published: true, counts })
  await step(host, 'publish', () => load.publish(checkpoint, point)).catch(blame(host, 'destination'))
}

/** Checked before anything of the checkpoint is saved. The point holds the source's state at most twice. */
function refuseState(point: Json): void {
  const fault = findStateFault(point)
  if (fault === null) return
  throw new ConnectorError(
    'limit',
    `The source has ${fault}, which cannot be stored between runs; make it remember less, or use full_refresh.`,
  )
}

/** Whether rows are visible once their checkpoint is committed, so that the next run must not read them again. */
function isVisibleAtCommit({ job, endpoints, resumable }: Attempt): boolean {
  return endpoints.destination.capabilities.commits === 'mark' && resumable && job.sync.write !== 'replace'
}

function newState(job: Job, cursor: Json): Json {
  return job.sync.mode === 'incremental' ? cursor : null
}

function pointOf(attempt: Attempt, rest: Pick<Point, 'resume' | 'state' | 'done' | 'published' | 'counts'>): Json {
  const { encoding, resumable, endpoints, start, columns } = attempt
  const inBatches = endpoints.destination.capabilities.commits === 'batch'
  const batch = inBatches ? { batch: { reading: start.reading, columns } } : {}
  const { run_id, seq, fingerprint } = attempt.job
  return writePoint({ run_id, seq, fingerprint, encoding, resumable, ...rest, ...batch })
}
