/** The pages of one series: one partition, one interval, from a token to the last page. */
import { crc32 } from 'node:zlib'
import type { Json } from '../../json/json.ts'
import { ConnectorError } from '../contract.ts'
import { HttpAnswer } from './answer.ts'
import { type CursorFilter, type HighMark, hashRecord, NO_MARK } from './cursor-tracker.ts'
import type { HttpClient, Sent } from './http-client.ts'
import { parseLines } from './lines.ts'
import type { Injected } from './outgoing.ts'
import { readRecords } from './page-records.ts'
import type { TokenPlaces } from './paginator.ts'
import type { PagesPlan } from './plan.ts'
import type { RecordsPlan } from './records-plan.ts'
import type { Fields, Scope } from './scope.ts'

export interface FetchedPage {
  lines: Buffer
  count: number
  /** How many records the page had before any filter. */
  extracted: number
  /** Where records should be, if the answer has nothing there. */
  absent: string | null
  /** How many the series had before this page and with it, where the API limits that; otherwise 0. */
  before: number
  after: number
  mark: HighMark
  /** Of this page; null is the first one. */
  token: Json
  /** Of the page that follows; null if this is the last. */
  next: Json
  /** With its answer. */
  scope: Scope
  /** The series must start anew: the API returns no further pages of it. */
  reset: boolean
}

export interface SeriesOptions {
  client: HttpClient
  plan: PagesPlan
  records: RecordsPlan
  /** Partition, interval and the rest; `token` is set here. */
  scope: Scope
  /** What partition and interval put into the request. */
  injected: readonly Injected[]
  filter: CursorFilter | null
  /** Where to begin; undefined: with the first page. */
  token?: Json
  /** How many records the series had before that. */
  already?: number
  embedded?: Json
  /** Properties that are asked for in chunks: several requests make one page. */
  chunks?: readonly (readonly string[])[]
  merge?(parts: readonly Fields[][]): Fields[]
}

/** Records that several answers gave together stand beside the last of these answers. */
type PageAnswer = Sent | { answer: HttpAnswer; merged: Fields[] }

/** How many pages are requested before the page before them was read, where the paginator can say which. */
const MOST_AHEAD = 8
/** Equal pages in a row that are an error: rows without an id may be equal by chance, but not for long. */
const MOST_SAME = 4
/** Tokens of pages that are remembered, to notice that an API repeats itself. */
const REMEMBERED = 10_000

export async function* readSeries(options: SeriesOptions): AsyncGenerator<FetchedPage> {
  const { plan, scope } = options
  const { paginator } = plan
  let token = options.token !== undefined ? options.token : (paginator?.first(scope) ?? null)
  const ahead = new PagesAhead(options)
  const loop = new LoopGuard()
  let pages = 0
  const limit = plan.reset?.afterRecords ?? null
  let records = options.already ?? 0
  for (;;) {
    loop.check(token, scope, plan)
    const sent = pages === 0 && options.embedded !== undefined ? embeddedAnswer(options) : await ahead.take(token)
    const repeated = typeof sent !== 'string' && 'bytes' in sent && loop.isRepeated(sent.bytes)
    const answered = readPage(options, token, sent)
    if (repeated && answered.extracted > 0 && answered.next !== null) throw samePage(scope, plan, answered.extracted)
    const before = records
    records += limit === null ? 0 : answered.extracted
    const page = { ...answered, before, after: records }
    pages++
    if (limit !== null && records >= limit && page.next !== null) yield { ...page, next: null, reset: true }
    else {
      if (page.next !== null) ahead.start(page.next, pages)
      yield page
    }
    if (page.next === null || page.reset || (limit !== null && records >= limit)) return
    token = page.next
  }
}

function readPage(options: SeriesOptions, token: Json, sent: PageAnswer): Omit<FetchedPage, 'before' | 'after'> {
  const scope = { ...options.scope, token }
  const empty = { lines: NOTHING, count: 0, extracted: 0, absent: null, mark: NO_MARK, token, next: null, scope }
  if (typeof sent === 'string') return { ...empty, reset: sent === 'reset' }
  const answer = 'merged' in sent ? sent.answer : sent
  const answered: Scope = { ...scope, answer }
  const plan =
    'merged' in sent ? { ...options.records, ...finished, extract: { compute: () => sent.merged } } : options.records
  const page = readRecords(answer, plan, answered, options.filter)
  // The last record is parsed only if the paginator asks for it.
  const after = Object.defineProperty({ ...answered, pageRecords: page.extracted }, 'lastRecord', { get: page.last })
  const stops = page.tracker?.reachedKnown ?? false
  const next = stops ? null : (options.plan.paginator?.next(after) ?? null)
  const { count } = page.lines
  const mark = page.tracker?.mark ?? NO_MARK
  return {
    lines: page.lines.finish(),
    count,
    extracted: page.extracted,
    absent: page.absent,
    mark,
    token,
    next,
    scope: answered,
    reset: false,
  }
}

const NOTHING = Buffer.alloc(0)
/** The parts of merged records were filtered and transformed one by one. */
const finished = { filter: null, transforms: [] } satisfies Partial<RecordsPlan>

function embeddedAnswer({ embedded, records, plan, scope }: SeriesOptions): HttpAnswer {
  const body = Buffer.from(JSON.stringify(embedded))
  return new HttpAnswer({ status: 200, headers: {}, url: plan.request.url(scope), requests: 0, body }, records.decoder)
}

/** Requests pages, and those that follow where their tokens are known before the answer. */
class PagesAhead {
  readonly #options: SeriesOptions
  readonly #under = new Map<string, Promise<PageAnswer>>()

  constructor(options: SeriesOptions) {
    this.#options = options
  }

  take(token: Json): Promise<PageAnswer> {
    const key = JSON.stringify(token)
    const started = this.#under.get(key)
    this.#under.delete(key)
    // The API went another way than expected: what was requested ahead is of no use.
    if (started === undefined) this.#under.clear()
    return started ?? this.#send(token)
  }

  /** One page ahead after the first, two after the second, and so on: a short series costs few requests in vain. */
  start(next: Json, pages: number): void {
    const { client, plan } = this.#options
    const follow = plan.paginator?.ahead
    if (!follow) return
    const most = Math.min(pages, client.concurrency, MOST_AHEAD)
    let token = next
    for (let count = 0; count < most; count++) {
      const key = JSON.stringify(token)
      if (!this.#under.has(key)) {
        const sent = this.#send(token)
        // Beyond the last page the answer may be an error that nobody waits for.
        sent.catch(() => {})
        this.#under.set(key, sent)
      }
      token = follow(token)
    }
  }

  async #send(token: Json): Promise<PageAnswer> {
    const { chunks, merge, records, scope } = this.#options
    if (!chunks || !merge) return this.#sendOnce(token, scope)
    const parts: Fields[][] = []
    let last: Sent = 'ignored'
    for (const properties of chunks) {
      const asked = { ...scope, token, properties }
      last = await this.#sendOnce(token, asked)
      if (typeof last === 'string') return last
      const { lines } = readRecords(last, { ...records, add: null }, { ...asked, answer: last }, null)
      parts.push(parseLines(lines.finish()))
    }
    return typeof last === 'string' ? last : { answer: last, merged: merge(parts) }
  }

  #sendOnce(token: Json, scope: Scope): Promise<Sent> {
    const { client, plan, records } = this.#options
    return client.send({
      request: plan.request,
      scope: { ...scope, token },
      decoder: records.decoder,
      injected: injectionsOf(this.#options, token),
      ...pageOf(plan, token),
    })
  }
}

function injectionsOf({ plan, injected, scope }: SeriesOptions, token: Json): Injected[] {
  const { paginator } = plan
  const all: Injected[] = token !== null && plan.tokenReplacesSlice ? [] : [...injected]
  if (paginator?.size) all.push({ at: paginator.size.inject, value: paginator.size.value(scope) })
  for (const at of placesOf(plan, token)) if (at.into !== 'url') all.push({ at, value: token })
  return all
}

function placesOf({ paginator }: PagesPlan, token: Json): TokenPlaces {
  if (!paginator || token === null) return []
  return typeof paginator.inject === 'function' ? paginator.inject(token) : paginator.inject
}

function pageOf(plan: PagesPlan, token: Json): { page?: string } {
  if (!placesOf(plan, token).some(({ into }) => into === 'url')) return {}
  return { page: typeof token === 'string' ? token : JSON.stringify(token) }
}

const hostOf = (scope: Scope, plan: PagesPlan): string => URL.parse(plan.request.url(scope))?.host ?? 'The server'

function samePage(scope: Scope, plan: PagesPlan, records: number): ConnectorError {
  return new ConnectorError(
    'source',
    `${hostOf(scope, plan)} answers ${MOST_SAME} pages in a row with the same ${records} records; it seems to ignore which page it is asked for, so its pages would never end. Check the name of the page parameter, and where it is sent.`,
  )
}

/**
 * Ends a series whose tokens come back. The latest are remembered by hash; beyond that one token is compared with all that
 * follow, and replaced at growing distances (Brent's algorithm), so every cycle is noticed with little memory.
 */
class LoopGuard {
  readonly #seen = new Set<string>()
  #anchor = ''
  #steps = 0
  #until = REMEMBERED
  #lastSum = ''
  #same = 0

  /** The body is the same as that of the pages before: the server ignores which page it is asked for. */
  isRepeated(body: Buffer): boolean {
    const sum = `${body.length}:${crc32(body)}`
    this.#same = sum === this.#lastSum ? this.#same + 1 : 1
    this.#lastSum = sum
    return this.#same >= MOST_SAME
  }

  check(token: Json, scope: Scope, plan: PagesPlan): void {
    const hash = hashRecord(JSON.stringify(token))
    const repeated = this.#seen.has(hash) || hash === this.#anchor
    if (repeated) {
      const host = hostOf(scope, plan)
      const shown = JSON.stringify(token).slice(0, 100)
      throw new ConnectorError(
        'source',
        `${host} names a page as the next one that was read before (${shown}); its pages would never end.`,
      )
    }
    if (this.#seen.size < REMEMBERED) this.#seen.add(hash)
    if (++this.#steps < this.#until) return
    this.#anchor = hash
    this.#until *= 2
  }
}
