/** Which action an answer, or a request without an answer, leads to. */
import { retryAfterMs } from '../../egress/retry-after.ts'
import type { ErrorAction, ErrorFilter, ErrorPolicy } from './error-policy.ts'
import type { Scope } from './scope.ts'

export interface Decision {
  action: ErrorAction
  message: string | null
  kind: ErrorFilter['kind'] | null
  policy: ErrorPolicy
}

const FIRST_WAIT_MS = 1000
const LONGEST_WAIT_MS = 60_000

/** What applies where a plan says nothing. */
const DEFAULT_POLICY: ErrorPolicy = { filters: [], backoff: [], maxRetries: 5, maxTimeMs: 600_000 }

/** `scope.answer` null: there was no answer. */
export function decide(policies: readonly ErrorPolicy[], scope: Scope): Decision {
  for (const policy of policies)
    for (const filter of policy.filters) {
      if (!matches(filter, scope)) continue
      const message = filter.message?.(scope) ?? null
      return { action: filter.action, message: message === '' ? null : message, kind: filter.kind ?? null, policy }
    }
  return { action: usualAction(scope), message: null, kind: null, policy: policies[0] ?? DEFAULT_POLICY }
}

function matches({ statuses, contains, when }: ErrorFilter, scope: Scope): boolean {
  const { answer } = scope
  if (answer === null) return false
  if (statuses === undefined && contains === undefined && when === undefined) return !isSuccess(answer.status)
  if (statuses?.includes(answer.status)) return true
  if (when?.(scope)) return true
  return contains !== undefined && answer.text.includes(contains)
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300

function usualAction({ answer }: Scope): ErrorAction {
  if (answer === null) return 'retry'
  const { status } = answer
  if (isSuccess(status) || status === 304) return 'success'
  if (status === 429) return 'rate_limited'
  return status === 408 || status === 425 || status >= 500 ? 'retry' : 'fail'
}

/** Milliseconds before the next attempt: what the policy says, what the server asks for, or twice the last wait. */
export function backoffMs({ backoff }: ErrorPolicy, scope: Scope, attempt: number): number {
  for (const strategy of backoff) {
    const ms = strategy(scope, attempt)
    if (ms !== null && Number.isFinite(ms)) return Math.max(0, ms)
  }
  return askedMs(scope) ?? growingMs(attempt)
}

function askedMs({ answer }: Scope): number | null {
  if (answer === null) return null
  const { headers } = answer
  const asked = retryAfterMs({ headers })
  if (asked !== null) return asked
  const reset = Number(headers['x-ratelimit-reset'])
  const remaining = headers['x-ratelimit-remaining']
  return remaining === '0' && reset > 1_000_000_000 ? Math.max(0, reset * 1000 - Date.now()) : null
}

/** With jitter, so that many runs that were refused together do not come back together. */
const growingMs = (attempt: number): number =>
  Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2)
