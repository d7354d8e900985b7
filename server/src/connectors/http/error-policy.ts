/** What an answer, or the lack of one, means: go on, try again, leave it out or fail. */
import type { Scope, Value } from './scope.ts'

export type ErrorAction =
  | 'success'
  | 'fail'
  /** The page counts as empty and as the last one. */
  | 'ignore'
  | 'retry'
  /** Try again after a wait that does not count as a failure. */
  | 'rate_limited'
  /** Start the series of pages anew (`PagesPlan.reset`). */
  | 'reset_pages'
  /** Get a new token, then try again. */
  | 'renew_token'

export interface ErrorPolicy {
  filters: readonly ErrorFilter[]
  /** The first that returns a number decides. */
  backoff: readonly Backoff[]
  maxRetries: number
  maxTimeMs: number
}

export interface ErrorFilter {
  /** One of those that are given must match; if none is given, every answer that is not a success does. */
  statuses?: readonly number[]
  /** A text that the body contains. */
  contains?: string
  when?: Value<boolean>
  action: ErrorAction
  message?: Value<string>
  /** The failure's kind. Absent: by the status. */
  kind?: 'config' | 'source' | 'transient'
}

/** Milliseconds to wait before attempt number `attempt` (1 is the first retry), or null if it does not say. */
export type Backoff = (scope: Scope, attempt: number) => number | null
