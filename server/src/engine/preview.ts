/**
 * A pipeline without its load: the first records of the source after the choice of columns, and what the destination would
 * make of them. Nothing is written anywhere.
 */
import {
  type Column,
  type ColumnChoice,
  ConnectorError,
  type Context,
  type Destination,
  type LoadPreview,
  type Page,
  type PreviewContext,
  type Reading,
  type Source,
  type SourceContext,
  type Sync,
} from '../connectors/contract.ts'
import { inferColumns } from '../connectors/formats/head.ts'
import { createRowReader } from '../connectors/types/tsv-records.ts'
import { cutPrefix } from '../json/line-prefix.ts'
import { countRecords } from '../json/validator.ts'
import { chosenColumns, columnChooser } from './columns.ts'
import { asFailure, chooseEncoding, engineChooses } from './endpoints.ts'
import { followPages } from './pages.ts'

export interface PreviewedPipeline {
  source: Source
  sourceContext: SourceContext
  destination: Destination
  destinationContext: Context
  stream: string
  sync: Sync
  columns: ColumnChoice
  maxRecords: number
  /** When the whole preview has to be ready. */
  deadlineMs: number
  /** Instead of `source.read`, where that gives pages only when they are full. */
  readFirst?: (records: number, signal: AbortSignal) => Promise<Reading>
}

export interface PipelinePreview extends LoadPreview {
  /** A JSON array of objects. */
  records: Buffer
  count: number
}

/** Of the time for the preview; the rest is for the destination. */
const READING_SHARE = 2 / 3
/** For the answer to get back. */
const MARGIN_MS = 1000
const MAX_BYTES = 16 * 1024 * 1024

export async function previewPipeline(previewed: PreviewedPipeline): Promise<PipelinePreview> {
  const started = performance.now()
  const head = await readHead(previewed)
  const leftMs = Math.max(1, Math.floor(previewed.deadlineMs - MARGIN_MS - (performance.now() - started)))
  const { columns, changes, problems } = await lookAtTarget(previewed, head, leftMs)
  const lines = toLines(head)
  return { ...joinRecords(lines), columns, changes, problems: [...head.problems, ...problems] }
}

interface Head {
  encoding: 'ndjson' | 'tsv'
  columns: Column[] | null
  pages: Page[]
  problems: string[]
}

async function readHead(previewed: PreviewedPipeline): Promise<Head> {
  const { source, sourceContext, columns, maxRecords, deadlineMs } = previewed
  const encoding = chooseEncoding(previewed, previewed)
  const readingMs = Math.floor(deadlineMs * READING_SHARE)
  const late = AbortSignal.timeout(readingMs)
  const signal = AbortSignal.any([sourceContext.signal, late])
  const choose = engineChooses(previewed, source) ? columnChooser(columns) : null
  const head: Head = { encoding, columns: null, pages: [], problems: [] }
  let missing = maxRecords
  let bytes = 0
  try {
    const reading = await openReading(previewed, encoding, signal)
    head.columns = choose ? chosenColumns(reading.columns, columns) : reading.columns
    for await (const page of followPages(reading.pages, signal)) {
      const first = cutPrefix(page, missing)
      const chosen = choose ? choose(first) : first
      head.pages.push(chosen)
      missing -= chosen.records
      bytes += chosen.bytes.length
      if (missing === 0 || bytes > MAX_BYTES) break
    }
  } catch (error) {
    sourceContext.signal.throwIfAborted()
    const seconds = Math.round(readingMs / 1000)
    if (!late.aborted) throw asFailure(error, 'source')
    if (missing === maxRecords)
      throw new ConnectorError('timeout', `The source gave no record within ${seconds} seconds`)
    head.problems.push(`The source gave only ${maxRecords - missing} records within ${seconds} seconds`)
  }
  return head
}

function openReading(
  { source, sourceContext, stream, sync, columns, maxRecords, readFirst }: PreviewedPipeline,
  encoding: 'ndjson' | 'tsv',
  signal: AbortSignal,
): Promise<Reading> {
  if (readFirst) return readFirst(maxRecords, signal)
  return source.read({ ...sourceContext, signal, stream, encoding, sync, columns, state: null, resume: null })
}

/** A destination that cannot be reached is a problem of the pipeline, not of the preview. */
async function lookAtTarget(
  { destination, destinationContext, stream, sync }: PreviewedPipeline,
  { encoding, columns, pages }: Head,
  leftMs: number,
): Promise<LoadPreview> {
  const plain = async (): Promise<LoadPreview> => {
    const lines = toLines({ encoding, columns, pages })
    const found = columns ?? (await inferColumns(asPages(lines))).columns
    return { columns: found, changes: [], problems: [] }
  }
  if (!destination.preview) return plain()
  const late = AbortSignal.timeout(leftMs)
  const signal = AbortSignal.any([destinationContext.signal, late])
  const context: PreviewContext = { ...destinationContext, signal, stream, sync, encoding, columns, pages }
  try {
    return await Promise.race([destination.preview(context), rejectAt(signal)])
  } catch (error) {
    destinationContext.signal.throwIfAborted()
    const message = late.aborted ? 'The destination did not answer in time' : asFailure(error, 'destination').message
    return { ...(await plain()), problems: [message] }
  }
}

const rejectAt = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))

async function* asPages(lines: Buffer): AsyncGenerator<Page> {
  yield { bytes: lines, records: countRecords(lines) }
}

function toLines({ encoding, columns, pages }: Pick<Head, 'encoding' | 'columns' | 'pages'>): Buffer {
  const bytes = Buffer.concat(pages.map((page) => page.bytes))
  return encoding === 'tsv' ? createRowReader(columns ?? [])(bytes) : bytes
}

/** What a source gave is passed on as it is, so it has to be valid. */
function joinRecords(lines: Buffer): { records: Buffer; count: number } {
  const count = countRecords(lines)
  const body = count === 0 ? '' : lines.toString('latin1', 0, lines.length - 1).replaceAll('\n', ',\n')
  return { records: Buffer.from(`[${body}]`, 'latin1'), count }
}
