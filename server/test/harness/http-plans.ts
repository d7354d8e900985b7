/** Plans by hand, and reading them without an engine. */
import { createFetch } from '../../src/connectors/authentication/fetch.ts'
import type { Sync } from '../../src/connectors/contract.ts'
import type { Cursor } from '../../src/connectors/http/cursor.ts'
import type { PagesPlan, Plan, ReadPlan } from '../../src/connectors/http/plan.ts'
import { openReading } from '../../src/connectors/http/read-stream.ts'
import type { RecordsPlan } from '../../src/connectors/http/records-plan.ts'
import type { RequestPlan } from '../../src/connectors/http/request-plan.ts'
import { createEgress } from '../../src/egress/policy.ts'
import type { Json } from '../../src/json/json.ts'
import { fullRefresh } from './run-bench.ts'

export const get = (url: string, more: Partial<RequestPlan> = {}): RequestPlan => ({
  method: 'GET',
  url: () => url,
  params: () => ({}),
  headers: () => ({}),
  body: null,
  authentication: { kind: 'none' },
  errors: [],
  ...more,
})

export const pages = (request: RequestPlan, more: Partial<PagesPlan> = {}): PagesPlan => ({
  kind: 'pages',
  request,
  paginator: null,
  ...more,
})

export const records = (path: string[], more: Partial<RecordsPlan> = {}): RecordsPlan => ({
  decoder: { kind: 'json' },
  extract: { path },
  filter: null,
  transforms: [],
  add: null,
  ...more,
})

export const read = (retrieval: ReadPlan['retrieval'], more: Partial<ReadPlan> = {}): ReadPlan => ({
  partitions: null,
  cursor: null,
  retrieval,
  records: records([]),
  properties: null,
  ...more,
})

export const planOf = (plan: ReadPlan, more: Partial<Plan> = {}): Plan => ({
  streams: [{ name: 'rows', primaryKey: [], columns: null, choose: () => plan }],
  budget: null,
  ...more,
})

/** Numbers that grow, filtered by the API from `start` on. */
export const numberCursor = (more: Partial<Cursor> = {}): Cursor => ({
  field: ['n'],
  read: (value) => (typeof value === 'number' ? value : null),
  compare: (a, b) => (a as number) - (b as number),
  range: (last) => ({ lower: last, upper: null }),
  split: ({ lower }) => [{ start: lower ?? 0 }],
  inject: [{ field: 'start', at: { into: 'param', path: ['start'] } }],
  clientSide: false,
  newestFirst: false,
  global: false,
  skipsSeen: true,
  ...more,
})

export interface ReadOptions {
  sync?: Partial<Sync>
  state?: Json
  resume?: Json
  /** Stops after so many pages. */
  most?: number
  signal?: AbortSignal
}

export interface ReadResult {
  rows: Record<string, unknown>[]
  lines: string[]
  /** Of every page, as it would be stored. */
  cursors: Json[]
  log: string[]
  /** Tokens that the log must not show. */
  remembered: readonly string[]
}

export async function readPlan(plan: Plan, options: ReadOptions = {}): Promise<ReadResult> {
  const egress = createEgress({ allow: ['127.0.0.0/8'], self: [] })
  const signal = options.signal ?? AbortSignal.timeout(20_000)
  const log: string[] = []
  const write = (message: string) => void log.push(message)
  const fetch = createFetch({ egress, authentication: { type: 'none', params: {} }, signal })
  const lines: string[] = []
  const cursors: Json[] = []
  try {
    const reading = await openReading(plan, 'rows', {
      fetch,
      signal,
      log: { debug: write, info: write, warn: write, error: write },
      sync: { ...fullRefresh, ...options.sync },
      state: options.state ?? null,
      resume: options.resume ?? null,
    })
    for await (const page of reading.pages) {
      lines.push(...page.bytes.toString().split('\n').slice(0, -1))
      cursors.push(structuredClone(page.cursor ?? null))
      if (cursors.length === options.most) break
    }
  } finally {
    await egress.close()
  }
  return { rows: lines.map((line) => JSON.parse(line)), lines, cursors, log, remembered: fetch.obtained }
}
