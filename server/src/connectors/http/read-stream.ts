/** Streams of a plan as the contract wants them: pages with cursors, checks and samples. */
import type { Json } from '../../json/json.ts'
import { ConnectorError, type Page, type ReadContext, type Reading, type SourceContext } from '../contract.ts'
import { MAX_TIED } from './cursor-tracker.ts'
import { HttpClient } from './http-client.ts'
import { parseLines } from './lines.ts'
import type { Plan, StreamPlan } from './plan.ts'
import { readPosition } from './position.ts'
import type { Fields } from './scope.ts'
import { type ReadPage, StreamReader } from './stream-reader.ts'
import { StreamState } from './stream-state.ts'

/** A larger page is delivered in pieces, so that little has to be read again after an interruption. */
const LARGE_BYTES = 4 * 1024 * 1024
const PIECE_BYTES = 1024 * 1024
const NEWLINE = 0x0a

type Context = Pick<SourceContext, 'fetch' | 'signal' | 'log'>
type Reads = Pick<ReadContext, 'sync' | 'state' | 'resume' | 'range'>

export async function openReading(plan: Plan, stream: string, context: Context & Reads): Promise<Reading> {
  const found = findStream(plan, stream)
  const incremental = context.sync.mode === 'incremental'
  if (incremental) refuseWithoutCursor(found, context)
  return { columns: null, pages: readAll(plan, found, context, incremental) }
}

/** Throws unless the stream answers: reads its first page. */
export async function checkStream(plan: Plan, stream: string, context: Context): Promise<void> {
  await sampleRecords(plan, stream, context, 1)
}

/** The first records, without reading more pages than they need. */
export async function sampleRecords(plan: Plan, stream: string, context: Context, most: number): Promise<Fields[]> {
  const records: Fields[] = []
  await withClient(plan, context, async (client) => {
    const reader = new StreamReader(
      { client, stream: findStream(plan, stream), incremental: false, started: new Date() },
      null,
    )
    let pages = 0
    for await (const { lines } of reader.pages()) {
      records.push(...parseLines(lines).slice(0, most - records.length))
      if (records.length >= most || ++pages >= MOST_SAMPLED_PAGES) break
    }
  })
  return records
}

const MOST_SAMPLED_PAGES = 20

/** Throws a ConnectorError unless a read can start from this state. */
export function checkStreamState(state: Json): void {
  readPosition(state)
  StreamState.read(state)
}

function findStream(plan: Plan, name: string): StreamPlan {
  const found = plan.streams.find((stream) => stream.name === name)
  if (found) return found
  const names = plan.streams.map((stream) => stream.name)
  const known = names.length > 20 ? `${names.slice(0, 20).join(', ')} and ${names.length - 20} more` : names.join(', ')
  throw new ConnectorError('config', `There is no stream '${name.slice(0, 100)}'; there are ${known}.`)
}

function refuseWithoutCursor(stream: StreamPlan, { state, sync }: Reads): void {
  const { cursor } = stream.choose(state)
  if (cursor === null)
    throw new ConnectorError(
      'config',
      `The stream ${stream.name} has no cursor to read incrementally by; use full_refresh.`,
    )
  const [field, ...rest] = cursor.field
  if (sync.cursor_field !== null && (rest.length > 0 ? cursor.field.join('.') : field) !== sync.cursor_field)
    throw new ConnectorError(
      'config',
      `config.sync.cursor_field is ${sync.cursor_field}, but the stream ${stream.name} is read by ${cursor.field.join('.')}; leave cursor_field out.`,
    )
}

async function* readAll(
  plan: Plan,
  stream: StreamPlan,
  context: Context & Reads,
  incremental: boolean,
): AsyncGenerator<Page> {
  const { resume, state, range } = context
  if (resume !== null && readPosition(resume) === null) return
  const ending = endWith(context.signal)
  const client = new HttpClient({ ...context, signal: ending.signal }, plan)
  const read = (from: Json) => new StreamReader({ client, stream, incremental, started: new Date(), range }, from)
  try {
    const unfinished = resume === null && incremental && readPosition(state) !== null
    const first = read(resume ?? (incremental ? state : null))
    if (!unfinished) return yield* deliver(first, skipOf(resume), context)
    // A run that failed has left its read unfinished. It ends here; what is new since then follows.
    const ended = yield* finishLeftOver(first, skipOf(state), context)
    yield* deliver(read(ended ? first.finished : withoutPosition(state)), 0, context)
  } finally {
    ending.end()
  }
}

/** False if the page at which the other run ended is gone: tokens of pages expire. */
async function* finishLeftOver(reader: StreamReader, skip: number, context: Context): AsyncGenerator<Page, boolean> {
  let delivered = false
  try {
    for await (const page of deliver(reader, skip, context)) {
      delivered = true
      yield page
    }
    return true
  } catch (error) {
    const gone = error instanceof ConnectorError && error.kind === 'source' && !error.transient
    if (delivered || !gone) throw error
    context.log.warn(
      `The page at which the last run ended cannot be read any more (${error.message}). Its range is read again from the beginning, so some records may come twice.`,
    )
    return false
  }
}

function withoutPosition(state: Json): Json {
  const { at: _, ...rest } = state as Fields
  return rest
}

/** A signal that is also aborted when the read ends: requests that were sent ahead end with it. */
function endWith(signal: AbortSignal): { signal: AbortSignal; end(): void } {
  const controller = new AbortController()
  const stop = (): void => controller.abort(signal.reason)
  if (signal.aborted) stop()
  signal.addEventListener('abort', stop)
  return {
    signal: controller.signal,
    end() {
      signal.removeEventListener('abort', stop)
      controller.abort(new Error('the read has ended'))
    },
  }
}

const skipOf = (cursor: Json): number => readPosition(cursor)?.skip ?? 0

/**
 * Each page is held until the next one is there, because only then it is known whether it was the last: its cursor then is
 * the state for the next run. Pages without records only move the cursor of the one before.
 */
async function* deliver(reader: StreamReader, skip: number, { log }: Context): AsyncGenerator<Page> {
  let held: Page | null = null
  let toSkip = skip
  let absent: string | null = null
  for await (const page of reader.pages()) {
    absent ??= page.absent
    for (const piece of cutPage(page, toSkip)) {
      if (piece.records === 0) {
        if (held) held.cursor = piece.cursor!
        continue
      }
      if (held) yield held
      held = piece
    }
    toSkip = 0
  }
  if (held) yield { ...held, cursor: reader.finished }
  if (reader.crowded !== null)
    log.warn(
      `More than ${MAX_TIED} records share the cursor value ${JSON.stringify(reader.crowded).slice(0, 100)}. Only so many of them can be remembered: if it stays the highest value, the next run returns the others again.`,
    )
  if (held === null && absent !== null)
    log.warn(`No records: the answers have nothing at '${absent.slice(0, 200)}', where the records should be.`)
}

function* cutPage({ lines, count, before, after }: ReadPage, skip: number): Generator<Page> {
  let start = 0
  let done = 0
  for (; done < skip && start < lines.length; done++) start = lines.indexOf(NEWLINE, start) + 1
  while (lines.length - start > LARGE_BYTES) {
    const end = lines.indexOf(NEWLINE, start + PIECE_BYTES) + 1
    if (end === 0) break
    const records = countLines(lines, start, end)
    done += records
    yield { bytes: lines.subarray(start, end), records, cursor: before(done) }
    start = end
  }
  yield { bytes: lines.subarray(start), records: Math.max(0, count - done), cursor: after }
}

function countLines(lines: Buffer, start: number, end: number): number {
  let count = 0
  for (let at = start; at < end; at = lines.indexOf(NEWLINE, at) + 1) count++
  return count
}

async function withClient(plan: Plan, context: Context, act: (client: HttpClient) => Promise<void>): Promise<void> {
  const { signal, end } = endWith(context.signal)
  try {
    await act(new HttpClient({ ...context, signal, hurried: true }, plan))
  } finally {
    end()
  }
}
