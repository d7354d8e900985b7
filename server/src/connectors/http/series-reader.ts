/** The pages of a series, whichever way they are retrieved: page by page, starting anew, or from an export. */
import type { Json } from '../../json/json.ts'
import { ConnectorError } from '../contract.ts'
import type { CursorRange } from './cursor.ts'
import { type CursorFilter, type HighMark, NO_MARK, raise } from './cursor-tracker.ts'
import type { HttpClient } from './http-client.ts'
import { prepareJob, removeJob } from './jobs.ts'
import { parseLines } from './lines.ts'
import type { Injected } from './outgoing.ts'
import { type FetchedPage, readSeries, type SeriesOptions } from './page-series.ts'
import type { Slice } from './partitions.ts'
import type { JobPlan, PagesPlan, ReadPlan } from './plan.ts'
import type { Position } from './position.ts'
import { chunkProperties, mergeRecords } from './properties.ts'
import { createScope } from './run-scope.ts'
import type { Fields, Scope } from './scope.ts'

/** One partition and one interval. */
export interface Series {
  slice: Slice
  /** Of the partition in the state; null: there is one value for all. */
  key: string | null
  range: CursorRange | null
  filter: CursorFilter | null
  index: number
  interval: Fields
  /** Without the interval. */
  scope: Scope
  /** The last interval of its partition. */
  isLast: boolean
  /** Where it goes on. */
  resumed: Position | null
}

export interface SeriesPage extends FetchedPage {
  job: Position['job']
  /** The part of the interval that the page belongs to, and that which follows it. */
  narrowed: Fields | null
  nextNarrowed: Fields | null
  /** Further pages follow although `next` is null: another target of the export, or the rest of the interval. */
  more: boolean
  nextJob: Position['job']
}

const MOST_RESETS = 1000
const MOST_PROPERTIES = 100_000

export class SeriesReader {
  readonly #client: HttpClient
  readonly #plan: ReadPlan
  #chunks: Promise<string[][]> | null = null

  constructor(client: HttpClient, plan: ReadPlan) {
    this.#client = client
    this.#plan = plan
  }

  pages(series: Series): AsyncGenerator<SeriesPage> {
    const { retrieval } = this.#plan
    return retrieval.kind === 'job' ? this.#readJob(series, retrieval) : this.#readPages(series, retrieval)
  }

  async *#readPages(series: Series, plan: PagesPlan): AsyncGenerator<SeriesPage> {
    const { resumed } = series
    let narrowed = resumed?.narrowed ?? null
    let token: Json = resumed?.token ?? null
    let filter = narrowed !== null ? narrowFilter(series.filter, resumed!.mark) : series.filter
    let embedded = token === null && narrowed === null ? series.slice.embedded : undefined
    let already = resumed?.records ?? 0
    let mark: HighMark = resumed?.mark ?? NO_MARK
    const place = { job: null, nextJob: null }
    for (let resets = 0; ; resets++) {
      let rest: Fields | null | undefined
      const options = await this.#options(series, plan, narrowed ?? series.interval)
      const start = { ...(token === null ? {} : { token }), ...(embedded === undefined ? {} : { embedded }) }
      for await (const page of readSeries({ ...options, ...start, already, filter })) {
        if (filter !== null) mark = raise(filter.cursor, mark, page.mark)
        rest = page.reset ? this.#restOf(series, narrowed, mark, resets) : undefined
        const nextNarrowed = rest === undefined ? narrowed : rest
        yield { ...page, ...place, narrowed, nextNarrowed, more: page.reset }
      }
      if (rest === undefined) return
      narrowed = rest
      if (narrowed !== null) filter = narrowFilter(series.filter, mark)
      token = null
      already = 0
      embedded = undefined
    }
  }

  /** What is left of an interval whose further pages the API refuses; null is the whole of it. */
  #restOf(series: Series, narrowed: Fields | null, mark: HighMark, resets: number): Fields | null {
    const { cursor, retrieval } = this.#plan
    if (resets >= MOST_RESETS) throw new ConnectorError('source', 'The API has refused further pages too often.')
    const how = retrieval.kind === 'pages' ? retrieval.reset?.how : 'again'
    if (how !== 'split' || !cursor?.narrow || mark.highest === null) return narrowed
    const interval = narrowed ?? series.interval
    const rest = cursor.narrow(interval, mark.highest)
    if (JSON.stringify(rest) === JSON.stringify(interval))
      throw new ConnectorError(
        'source',
        `More records share the cursor value ${JSON.stringify(mark.highest).slice(0, 100)} than the API returns pages for.`,
      )
    return rest
  }

  async *#readJob(series: Series, plan: JobPlan): AsyncGenerator<SeriesPage> {
    const { download } = plan
    const options = await this.#options(series, download, series.interval)
    const context = { client: this.#client, plan, scope: options.scope, injected: options.injected }
    const known = series.resumed?.job ?? null
    const ready = await prepareJob(context, known?.created ?? null)
    if (ready === null) return
    const { job, targets } = ready
    for (let target = known?.target ?? 0; target < targets.length; target++) {
      const at = { created: job.created, target }
      const more = target < targets.length - 1
      const scope = { ...options.scope, job: { ...job, target: targets[target]! } }
      const token = target === known?.target ? (series.resumed?.token ?? null) : null
      const start = token === null ? {} : { token }
      // What partition and interval put into a request belongs to the one that creates the export.
      for await (const page of readSeries({ ...options, ...start, injected: [], scope }))
        yield { ...page, job: at, nextJob: { ...at, target: target + 1 }, narrowed: null, nextNarrowed: null, more }
    }
    await removeJob(context, job)
  }

  async #options(series: Series, plan: PagesPlan, interval: Fields): Promise<SeriesOptions> {
    const { cursor, properties, records } = this.#plan
    const scope = { ...series.scope, interval }
    const times: Injected[] = (cursor?.inject ?? []).map(({ field, at }) => ({ at, value: interval[field] ?? null }))
    const injected = [...series.slice.injected, ...times]
    const common = { client: this.#client, plan, records, scope, injected, filter: series.filter }
    if (properties === null) return common
    this.#chunks ??= this.#findChunks()
    const chunks = await this.#chunks
    if (chunks.length === 1) return { ...common, scope: { ...scope, properties: chunks[0]! } }
    return { ...common, chunks, merge: (parts) => mergeRecords(parts, properties.mergeBy) }
  }

  async #findChunks(): Promise<string[][]> {
    const { properties } = this.#plan
    if (properties === null) return []
    const { list } = properties
    if (!('retrieval' in list)) return chunkProperties(list, properties)
    const names: string[] = []
    const scope = createScope(new Date())
    const { retrieval: plan, records, name } = list
    for await (const { lines } of readSeries({
      client: this.#client,
      plan,
      records,
      scope,
      injected: [],
      filter: null,
    }))
      for (const record of parseLines(lines)) {
        const found = name(record)
        if (found !== null && names.length < MOST_PROPERTIES) names.push(found)
      }
    return chunkProperties(names, properties)
  }
}

/** Records with the value at which an interval was divided come twice. */
function narrowFilter(filter: CursorFilter | null, mark: HighMark): CursorFilter | null {
  if (filter === null || mark.highest === null) return filter
  return { ...filter, last: mark.highest, seen: new Set(mark.tied) }
}
