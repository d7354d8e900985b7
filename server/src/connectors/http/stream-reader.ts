/**
 * Reads one stream: its partitions in order, their intervals in order, their pages in order. Later series are requested
 * while earlier ones are read, but their pages wait their turn, so that one position says where the read is.
 */
import type { Json } from '../../json/json.ts'
import { ConnectorError, type ReadRange } from '../contract.ts'
import { boundCursor, type Cursor, type CursorRange } from './cursor.ts'
import { type CursorFilter, type HighMark, NO_MARK, raise } from './cursor-tracker.ts'
import type { HttpClient } from './http-client.ts'
import { parseLines } from './lines.ts'
import { iteratePartitions, type ParentRecord, type Slice } from './partitions.ts'
import type { ParentPlan, ReadPlan, StreamPlan } from './plan.ts'
import { type Position, readPosition, writePosition } from './position.ts'
import { createScope } from './run-scope.ts'
import type { Fields, Scope } from './scope.ts'
import { type Series, type SeriesPage, SeriesReader } from './series-reader.ts'
import { partitionKey, StreamState } from './stream-state.ts'

export interface ReadPage {
  lines: Buffer
  count: number
  scope: Scope
  /** Where records should be, if the answer has nothing there. */
  absent: string | null
  /** The cursor that reads this page again, without its first records. */
  before(skip: number): Json
  /** The cursor that goes on after it. */
  after: Json
}

export interface ReaderOptions {
  client: HttpClient
  stream: StreamPlan
  /** False: everything is read, whatever the state. */
  incremental: boolean
  started: Date
  /** Of a back-fill. It is about this stream, not about its parents. */
  range?: ReadRange | undefined
  /**
   * Its records are the partitions of a stream that has a cursor of its own: those with the last value count again, since
   * what is below them may be new.
   */
  asParent?: boolean
}

const MOST_INTERVALS = 200_000

export class StreamReader {
  readonly #options: ReaderOptions
  readonly #from: Position | null
  readonly #plan: ReadPlan
  readonly #fresh: boolean
  readonly #started: Date
  /** Null: values are not followed, because there is no cursor or everything is read. */
  readonly #cursor: Cursor | null
  /** One value for everything, instead of one per partition. */
  readonly #shared: boolean
  #state: StreamState
  /** Of the partition that is read, or of all of them where they share one value. */
  #mark: HighMark
  /** A value that more records share than a state lists; null: there was none. */
  crowded: Json = null
  /** The final states of parents that are read incrementally, by name. */
  readonly #parents: Fields = {}

  /** `from`: a state, or the cursor of a page. */
  constructor(options: ReaderOptions, from: Json) {
    this.#options = options
    this.#from = readPosition(from)
    this.#state = StreamState.read(from)
    this.#fresh = this.#from?.fresh ?? from === null
    this.#started = this.#from?.started ?? options.started
    this.#plan = planWithin(options.stream.choose(this.#fresh ? null : from), options.range)
    this.#cursor = options.incremental ? this.#plan.cursor : null
    this.#shared = this.#plan.partitions === null || (this.#cursor?.global ?? true)
    this.#mark = this.#from?.mark ?? NO_MARK
  }

  /** The cursor once everything is read. */
  get finished(): Json {
    if (this.#cursor === null && Object.keys(this.#parents).length === 0) return { done: true }
    const state = this.#shared && this.#cursor ? this.#state.raised(this.#mark, this.#cursor) : this.#state
    return state.withParents(this.#parents).toJson()
  }

  async *pages(): AsyncGenerator<ReadPage> {
    for await (const { series, pages } of this.#startAhead()) {
      let completed = false
      for await (const page of pages) {
        completed = page.next === null && !page.more && series.isLast
        yield this.#deliver(series, page, completed)
      }
      if (series.isLast && !completed) this.#complete(series)
    }
  }

  /** The records one by one, for streams whose partitions they are. */
  async *records(): AsyncGenerator<ParentRecord> {
    let skip = this.#from?.skip ?? 0
    for await (const page of this.pages()) {
      const records = parseLines(page.lines)
      for (let index = skip; index < records.length; index++)
        yield { record: records[index]!, scope: page.scope, cursor: page.before(index) }
      skip = 0
    }
  }

  /** `completes`: the page is the last of its partition. */
  #deliver(series: Series, page: SeriesPage, completes: boolean): ReadPage {
    const before = this.#mark
    const beforeState = this.#state.toJson()
    if (this.#cursor !== null) this.#mark = raise(this.#cursor, this.#mark, page.mark)
    this.crowded ??= this.#mark.over ? this.#mark.highest : null
    if (completes) this.#complete(series)
    const { job, narrowed, nextNarrowed } = page
    const ended = page.next === null && !page.more
    const jumps = page.next === null && page.more
    const records = page.next === null ? 0 : page.after
    const next = {
      job: jumps ? page.nextJob : job,
      narrowed: nextNarrowed,
      token: page.next,
      records,
      ended,
      mark: this.#mark,
    }
    return {
      lines: page.lines,
      count: page.count,
      scope: page.scope,
      absent: page.absent,
      before: (skip) => ({
        ...beforeState,
        at: this.#position(series, { job, narrowed, token: page.token, skip, records: page.before, mark: before }),
      }),
      after: this.#state.toJson({ at: this.#position(series, next) }),
    }
  }

  #complete({ key }: Series): void {
    if (this.#cursor === null || key === null) return
    this.#state.complete(key, this.#mark, this.#cursor)
    this.#mark = NO_MARK
  }

  #position({ slice, range, index }: Series, more: Partial<Position>): Fields {
    return writePosition({
      fresh: this.#fresh,
      started: this.#started,
      partition: slice.position,
      range,
      interval: index,
      narrowed: null,
      token: null,
      skip: 0,
      records: 0,
      ended: false,
      mark: NO_MARK,
      job: null,
      ...more,
    })
  }

  /** Series in order, each with its first page already requested; as many ahead as requests may be under way. */
  async *#startAhead(): AsyncGenerator<{ series: Series; pages: AsyncIterable<SeriesPage> }> {
    const { client } = this.#options
    const reader = new SeriesReader(client, this.#plan)
    const source = this.#series()
    const waiting: Started[] = []
    let more = true
    try {
      for (;;) {
        while (more && waiting.length < client.concurrency) {
          const { value: series, done } = await source.next()
          if (done) more = false
          else waiting.push(start(series, reader.pages(series)))
        }
        const head = waiting.shift()
        if (!head) return
        yield { series: head.series, pages: rest(head) }
      }
    } finally {
      // What was requested in vain ends with the client's signal.
      for (const { pages } of waiting) pages.return(undefined).catch(() => {})
      await source.return(undefined)
    }
  }

  async *#series(): AsyncGenerator<Series> {
    let resumed = this.#from
    for await (const slice of this.#slices()) {
      const key = this.#shared ? null : partitionKey(slice.partition)
      const last = this.#cursor === null ? NO_MARK : this.#state.last(key)
      const { partition, extra } = slice
      const scope = createScope(this.#started, { partition, extra, state: this.#stateOf(last) })
      const range = resumed ? resumed.range : (this.#plan.cursor?.range(last.highest, scope) ?? null)
      const filter = this.#filter(range, last)
      const intervals = this.#intervals(range)
      for (let index = resumed ? resumed.interval : 0; index < intervals.length; index++) {
        const again = resumed !== null && index === resumed.interval ? resumed : null
        if (again?.ended) continue
        const interval = intervals[index]!
        yield {
          slice,
          key,
          range,
          filter,
          index,
          interval,
          scope,
          isLast: index === intervals.length - 1,
          resumed: again,
        }
      }
      resumed = null
    }
  }

  /** As templates see it: the value under the name of its field. */
  #stateOf({ highest }: HighMark): Fields | null {
    const field = this.#cursor?.field.at(-1)
    return highest === null || field === undefined ? null : { [field]: highest }
  }

  #slices(): AsyncGenerator<Slice> {
    const scope = createScope(this.#started)
    const readParent = (parent: ParentPlan, from: Json) => this.#readParent(parent, from)
    return iteratePartitions(this.#plan.partitions, { scope, readParent }, this.#from?.partition ?? null)
  }

  async *#readParent({ stream, incremental }: ParentPlan, from: Json): AsyncGenerator<ParentRecord> {
    const { client } = this.#options
    const follows = incremental && this.#options.incremental
    const start = from ?? (follows ? (this.#state.parents[stream.name] ?? null) : null)
    const reader = new StreamReader(
      { client, stream, incremental: follows, started: this.#started, asParent: this.#cursor !== null },
      start,
    )
    yield* reader.records()
    if (follows) this.#parents[stream.name] = reader.finished
  }

  #filter(range: CursorRange | null, last: HighMark): CursorFilter | null {
    const { cursor } = this.#plan
    const needed = this.#cursor !== null || (cursor !== null && (cursor.clientSide || cursor.newestFirst))
    if (cursor === null || range === null || !needed) return null
    const seen = this.#options.asParent ? [] : last.tied
    return { cursor, range, last: last.highest, seen: new Set(seen) }
  }

  #intervals(range: CursorRange | null): Fields[] {
    const { cursor } = this.#plan
    if (cursor === null || range === null) return [{}]
    const intervals: Fields[] = []
    for (const interval of cursor.split(range))
      if (intervals.push(interval) > MOST_INTERVALS)
        throw new ConnectorError(
          'config',
          `The range to read has more than ${MOST_INTERVALS} steps; use a longer step.`,
        )
    return intervals
  }
}

function planWithin(plan: ReadPlan, range: ReadRange | undefined): ReadPlan {
  return range && plan.cursor ? { ...plan, cursor: boundCursor(plan.cursor, range) } : plan
}

type SeriesPages = ReturnType<SeriesReader['pages']>

interface Started {
  series: Series
  pages: SeriesPages
  first: ReturnType<SeriesPages['next']>
}

function start(series: Series, pages: SeriesPages): Started {
  const first = pages.next()
  // It may fail long before its turn.
  first.catch(() => {})
  return { series, pages, first }
}

async function* rest({ pages, first }: Started) {
  try {
    for (let result = await first; !result.done; result = await pages.next()) yield result.value
  } finally {
    await pages.return(undefined)
  }
}
