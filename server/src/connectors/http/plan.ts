/**
 * The plan of an HTTP source: what to request, how to read the answers, and where a later read goes on. Front ends
 * (`rest_api`, manifests) compile their own language to it; `read-stream.ts` executes it.
 *
 * A plan lives in memory only. What depends on the moment is a function of a **scope**, so each front end brings its own
 * templates. Whatever a front end cannot express as data of this file, it refuses when it compiles.
 *
 *   partition   what one series of pages is about: a list's value, a record of a parent stream, a combination of these
 *   interval    the piece of the cursor's range that one series of pages covers
 *   page        one request and its answer; the paginator says which one follows
 */
import type { Json } from '../../json/json.ts'
import type { Column } from '../contract.ts'
import type { Cursor } from './cursor.ts'
import type { Paginator } from './paginator.ts'
import type { RecordsPlan } from './records-plan.ts'
import type { OutgoingRequest, RequestPlan } from './request-plan.ts'
import type { Fields, Injection, Scope, Value } from './scope.ts'

export interface Plan {
  streams: readonly StreamPlan[]
  budget: BudgetPlan | null
  /** How many requests may be under way at once. Absent: a small number. */
  concurrency?: number
}

export interface StreamPlan {
  name: string
  /** Names of top-level fields. */
  primaryKey: readonly string[]
  /** Null if only reading would tell. */
  columns: readonly Column[] | null
  /**
   * How to read it, given the state of the last run: the same every time, except where a stream has one way for the first
   * read and another one for later reads.
   */
  choose(state: Json): ReadPlan
}

export interface ReadPlan {
  /** Null: one partition without fields. */
  partitions: PartitionPlan | null
  /** Null: no incremental read. */
  cursor: Cursor | null
  retrieval: PagesPlan | JobPlan
  records: RecordsPlan
  /** Properties that the request names in chunks, because the API limits how many one request may name. */
  properties: PropertiesPlan | null
}

/** Pages, one request after another. */
export interface PagesPlan {
  kind: 'pages'
  request: RequestPlan
  /** Null: one request only. */
  paginator: Paginator | null
  /** A request with a page token carries nothing else of the partition and the interval: the token says it all. */
  tokenReplacesSlice?: boolean
  /**
   * After so many records of one series the API refuses further pages: the series starts anew at the last cursor value
   * (`split`), or from its first page (`again`). Also what the error action `reset_pages` does.
   */
  reset?: { how: 'split' | 'again'; afterRecords: number | null }
}

/** An export that the API prepares: create it, ask until it is ready, download it. */
export interface JobPlan {
  kind: 'job'
  create: RequestPlan
  poll: RequestPlan
  /** One status for the answer of a poll; null is an unknown one, which fails. */
  status: Value<JobStatus | null>
  /** The targets to download, from the last poll or from the answer of `targetRequest`. Each is a `scope.job.target`. */
  targets: Value<Json[]>
  targetRequest: RequestPlan | null
  download: PagesPlan
  abort: RequestPlan | null
  remove: RequestPlan | null
  /** How long a job may take. */
  timeoutMs: number
  /** How often a job that failed or timed out is created again, and the wait before. */
  attempts: number
  retryWaitMs: number
}

export type JobStatus = 'running' | 'completed' | 'failed' | 'timeout' | 'skipped'

export type PartitionPlan =
  /** One partition `{ [field]: value }` per value. */
  | { kind: 'list'; field: string; values: Value<Json[]>; inject: Injection | null }
  /** The records of parents; several parents are read one after another. */
  | { kind: 'parents'; parents: readonly ParentPlan[] }
  /** Every combination. */
  | { kind: 'product'; of: readonly PartitionPlan[] }
  /** One after another; a partition that several of them have comes once. */
  | { kind: 'union'; of: readonly PartitionPlan[] }
  /** Groups: every field holds the array of its values. */
  | { kind: 'group'; of: PartitionPlan; size: number; distinct: boolean }

export interface ParentPlan {
  stream: StreamPlan
  /**
   * The partition that a parent record stands for; null if it stands for none. `scope` is that of the parent's request, so
   * `scope.partition` is the partition that the parent itself was read for. The partition identifies itself in the state.
   */
  partition(record: Fields, scope: Scope): { partition: Fields; extra?: Fields } | null
  inject: ReadonlyArray<{ field: string; at: Injection }>
  /** The parent is read incrementally, too: children of parents that did not change are not read again. */
  incremental: boolean
  /** The body of the child's first page, where it is part of the parent's record; further pages are requested. */
  embedded?(record: Fields): Json | undefined
}

export interface PropertiesPlan {
  /** All names, maybe after a request. */
  list: readonly string[] | PropertiesFromRequest
  always: readonly string[]
  /** Null: all in one request. */
  limit: { by: 'characters' | 'count'; most: number; separator: string } | null
  /** The fields by which records of different chunks are one record. */
  mergeBy: readonly (readonly string[])[]
}

interface PropertiesFromRequest {
  retrieval: PagesPlan
  records: RecordsPlan
  name(record: Fields): string | null
}

/** The limits that the API states for its callers. The first policy that matches a request counts. */
export interface BudgetPlan {
  policies: readonly RatePolicy[]
  /** Headers that say how many calls are left, and when the window ends. */
  remainingHeader: string
  resetHeader: string
  /** Statuses that mean that the limit is reached. */
  statuses: readonly number[]
}

export interface RatePolicy {
  /** How many calls the request counts for; null if the policy is not about it. */
  weigh(request: OutgoingRequest): number | null
  limit:
    | { kind: 'fixed_window'; calls: number; periodMs: number }
    | { kind: 'moving_window'; rates: ReadonlyArray<{ calls: number; periodMs: number }> }
    | { kind: 'unlimited' }
}
