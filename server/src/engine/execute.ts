/**
 * Runs one attempt: source → stage → destination. It has no access to the database or to other processes; it asks its host
 * for what it needs.
 *
 * Two loops work side by side over a bounded channel. The **reader** takes pages from the source and appends them to the
 * stage. The **loader** hands them to the destination. At a checkpoint the reader seals the stage's part and keeps
 * reading, while the loader preserves the order that exactly-once relies on (loader.ts).
 *
 * A crash between any two of these leaves a mark that says how far the destination came, and parts that reach at least
 * as far; resume-point.ts uses both to decide where the next attempt starts. Each arrow has a fault point before and after it.
 */
import { convertedKey } from '../blobs/run-keys.ts'
import { type Column, ConnectorError, type Load, type Page, type Reading } from '../connectors/contract.ts'
import type { Table } from '../connectors/formats/local-table.ts'
import {
  type Attempt,
  blame,
  openAttempt,
  openParquetStage,
  prefixOf,
  remainingCounts,
  reportedCounts,
  saveCheckpoint,
  step,
} from './attempt.ts'
import { buildOutput, requirePrevious } from './built-output.ts'
import { createChannel } from './channel.ts'
import { chosenColumns } from './columns.ts'
import { fenceContext, loadContext, readContext } from './contexts.ts'
import { engineChooses, findEndpoints } from './endpoints.ts'
import type { Counts, Host, Job, Outcome, Output } from './job.ts'
import { loadPages, publish } from './loader.ts'
import { finishOutput, outputShape } from './output.ts'
import { discardPages } from './pages.ts'
import { type Item, PageReader } from './reader.ts'
import { decideStart, type Start } from './resume-point.ts'
import { createRunReport } from './run-report.ts'
import { removeStrayParts } from './stage.ts'

export type * from './job.ts'

/**
 * How much may be queued between the reader and the loader: enough to keep reading while a part is synced and
 * committed.
 */
const CHANNEL_BYTES = 8 * 1024 * 1024

export async function executeRun(job: Job, host: Host): Promise<Outcome> {
  const endpoints = await findEndpoints(job, host)
  const { source, destination } = endpoints
  requirePrevious(job, destination)
  const report = createRunReport(job, host, endpoints)
  const mark = await step(host, 'fence', () => destination.fence(fenceContext(job, host, endpoints))).catch(
    blame(host, 'destination'),
  )
  const start = decideStart(job, mark, destination.capabilities.commits, source.capabilities.resumable)
  report.begin(start)
  const attempt = openAttempt(job, host, endpoints, start)
  await forgetQuarantine(attempt)
  if (start.published) attempt.cursor = start.state
  else await moveRecords(attempt, report.progress)
  const output = await makeOutput(attempt)
  const counts = reportedCounts(attempt, attempt.counts)
  const { quarantine } = attempt
  report.end(counts, output, quarantine?.describe() ?? null)
  const cursor = job.sync.mode === 'incremental' && !job.range ? attempt.cursor : null
  return { output, cursor, ...counts, ...(quarantine && { quarantine: quarantine.parts }) }
}

/** What earlier attempts refused in checkpoints that do not count. */
async function forgetQuarantine(attempt: Attempt): Promise<void> {
  const { job, start } = attempt
  if ((job.resume?.quarantine ?? []).length > start.quarantine.length) await saveCheckpoint(attempt, 'quarantine')
}

async function moveRecords(attempt: Attempt, progress: (counts: Counts) => void): Promise<void> {
  const { host, start } = attempt
  const reading = isComplete(start) ? nothingLeft(attempt) : await openReading(attempt)
  const load = await step(host, 'open', () => attempt.endpoints.destination.open(loadContext(attempt, reading))).catch(
    async (error) => {
      attempt.stop(error)
      await discardPages(reading.pages)
      return blame(host, 'destination')(error)
    },
  )
  const channel = createChannel<Item>(CHANNEL_BYTES)
  const pages = reading.table ? await convertTable(attempt, reading.table, load) : takenPages(reading, load)
  let failure: { error: unknown } | null = null
  const fail = (error: unknown): void => {
    failure ??= { error }
    channel.fail(error)
    attempt.stop(error)
  }
  await Promise.all([
    new PageReader(attempt, channel).readAll(pages).catch(fail),
    loadPages(attempt, load, channel, progress).catch(fail),
  ])
  if (!failure) await publish(attempt, load).catch(fail)
  if (failure) {
    await cleanUp(attempt, load)
    throw (failure as { error: unknown }).error
  }
}

/**
 * The pages in the form that the load takes. The point of a checkpoint does not name it: no page is kept, so a later attempt
 * may take the other one.
 */
function takenPages({ pages, native }: Reading, load: Load): AsyncIterable<Page> {
  return load.native && native !== undefined ? native : pages
}

/** A table becomes pages as the destination converts it. */
async function convertTable(attempt: Attempt, table: Table, load: Load): Promise<AsyncIterable<Page>> {
  const { host } = attempt
  try {
    const { columns, pages } = await step(host, 'convert', () => load.convert!(table)).catch(blame(host, 'source'))
    return withColumns(attempt, pages, columns)
  } catch (error) {
    await cleanUp(attempt, load)
    throw error
  }
}

async function* withColumns(
  attempt: Attempt,
  pages: AsyncIterable<Page>,
  columns: () => Column[],
): AsyncGenerator<Page> {
  for await (const page of pages) {
    yield page
    await attempt.host.fault('converted')
  }
  attempt.columns = columns()
}

async function cleanUp(attempt: Attempt, load: Load): Promise<void> {
  const { host, stage, quarantine } = attempt
  host.progress(remainingCounts(attempt))
  await stage.abort().catch(() => undefined)
  await quarantine?.abort().catch(() => undefined)
  await load.abort().catch((error) => host.log.debug(`The destination could not clean up: ${String(error)}`))
}

/** All batches are stored, so the source is not needed again. */
function isComplete({ done, doubtful }: Start): boolean {
  return done && doubtful !== null
}

function nothingLeft({ columns }: Attempt): Reading {
  async function* pages(): AsyncGenerator<never> {}
  return { columns, pages: pages() }
}

async function openReading(attempt: Attempt): Promise<Reading> {
  const { job, host, endpoints, start } = attempt
  const reading = await step(host, 'read', () => endpoints.source.read(readContext(attempt))).catch(
    blame(host, 'source'),
  )
  attempt.columns = engineChooses(job, endpoints.source) ? chosenColumns(reading.columns, job.columns) : reading.columns
  attempt.resumable = reading.resumable ?? attempt.resumable
  if (reading.table) openParquetStage(attempt)
  if (start.doubtful && JSON.stringify(start.doubtful.columns) !== JSON.stringify(attempt.columns)) {
    attempt.stop(new Error('the columns changed'))
    await discardPages(reading.pages)
    throw new ConnectorError(
      'source',
      'The columns of the stream changed while the run was interrupted, so it cannot resume with what it read before; the next run starts over.',
    )
  }
  return reading
}

/** A file without records gets the columns of the previous one. */
function keepColumns({ job, host }: Attempt, columns: Column[]): void {
  if (columns.length > 0 && JSON.stringify(columns) !== JSON.stringify(job.schema)) host.saveSchema(columns, [])
}

async function makeOutput(attempt: Attempt): Promise<Output | null> {
  const { job, host, endpoints, parts, encoding, checkpoint, start } = attempt
  // Parts that our database does not know of are missing from the list, and an incomplete file would look complete.
  if (start.lost_checkpoints > 0) return null
  if (!job.keep_output) {
    // Batches were only stored in case one had to be sent again.
    const kept = attempt.quarantine?.parts ?? []
    if (endpoints.destination.capabilities.commits === 'batch') await removeStrayParts(host.blobs, prefixOf(job), kept)
    return null
  }
  if (endpoints.destination.buildOutput)
    return step(host, 'output', () => buildOutput(attempt)).catch(blame(host, 'internal'))
  return step(host, 'output', () =>
    finishOutput({
      blobs: host.blobs,
      key: convertedKey(prefixOf(job), job.attempt),
      shape: outputShape(endpoints),
      encoding,
      columns: attempt.columns,
      kept: job.schema,
      parts,
      checkpoint,
      signal: host.signal,
      log: host.log,
      keepColumns: (columns) => keepColumns(attempt, columns),
    }),
  ).catch(blame(host, 'internal'))
}
