/** Keeps to the rate limits that a plan states, and to what the API's own headers say is left. */
import type { BudgetPlan, RatePolicy } from './plan.ts'
import type { OutgoingRequest } from './request-plan.ts'
import type { Answer } from './scope.ts'

/** A request counts from the moment it may be sent. */
export interface Budget {
  /** Milliseconds until the request may be sent; 0 has counted it. */
  take(request: OutgoingRequest, now: number): number
  /** What the answer says about the calls that are left. */
  learn(request: OutgoingRequest, answer: Answer, now: number): void
}

/** A header may say anything. */
const LONGEST_WINDOW_MS = 3_600_000

export function createBudget(plan: BudgetPlan | null): Budget {
  const windows = (plan?.policies ?? []).map((policy) => ({ policy, limit: createLimit(policy) }))
  const find = (request: OutgoingRequest) => {
    for (const { policy, limit } of windows) {
      const weight = policy.weigh(request)
      if (weight !== null) return { weight, limit }
    }
    return null
  }
  return {
    take(request, now) {
      const found = find(request)
      return found === null ? 0 : found.limit.take(found.weight, now)
    },
    learn(request, answer, now) {
      if (plan === null) return
      const remaining = numberIn(answer.headers[plan.remainingHeader.toLowerCase()])
      const reset = resetIn(answer.headers[plan.resetHeader.toLowerCase()], now)
      const used = plan.statuses.includes(answer.status)
      if (!used && (remaining !== 0 || reset === null)) return
      find(request)?.limit.block(now + Math.min(reset ?? 0, LONGEST_WINDOW_MS))
    },
  }
}

interface Limit {
  take(weight: number, now: number): number
  block(until: number): void
}

function createLimit({ limit }: RatePolicy): Limit {
  let blockedUntil = 0
  const rates =
    limit.kind === 'unlimited'
      ? []
      : limit.kind === 'moving_window'
        ? limit.rates
        : [{ calls: limit.calls, periodMs: limit.periodMs }]
  const windows = rates.map((rate) => (limit.kind === 'fixed_window' ? fixedWindow(rate) : movingWindow(rate)))
  return {
    take(weight, now) {
      const wait = Math.max(blockedUntil - now, ...windows.map((window) => window.wait(weight, now)), 0)
      if (wait === 0) for (const window of windows) window.add(weight, now)
      return wait
    },
    block(until) {
      blockedUntil = Math.max(blockedUntil, until)
    },
  }
}

interface Rate {
  calls: number
  periodMs: number
}

function fixedWindow({ calls, periodMs }: Rate) {
  let start = Number.NEGATIVE_INFINITY
  let used = 0
  const turn = (now: number): void => {
    if (now - start < periodMs) return
    start = now
    used = 0
  }
  return {
    wait(weight: number, now: number): number {
      turn(now)
      return used === 0 || used + weight <= calls ? 0 : start + periodMs - now
    },
    add(weight: number, now: number): void {
      turn(now)
      used += weight
    },
  }
}

function movingWindow({ calls, periodMs }: Rate) {
  const sent: { at: number; weight: number }[] = []
  let used = 0
  return {
    wait(weight: number, now: number): number {
      while (sent.length > 0 && sent[0]!.at <= now - periodMs) used -= sent.shift()!.weight
      if (used === 0 || used + weight <= calls) return 0
      let freed = 0
      for (const { at, weight: one } of sent) {
        freed += one
        if (used - freed + weight <= calls) return at + periodMs - now
      }
      return sent.at(-1)!.at + periodMs - now
    },
    add(weight: number, now: number): void {
      sent.push({ at: now, weight })
      used += weight
    },
  }
}

function numberIn(text: string | undefined): number | null {
  const number = text === undefined || text.trim() === '' ? Number.NaN : Number(text)
  return Number.isFinite(number) ? number : null
}

/** Seconds from now, or a moment in epoch seconds. */
function resetIn(text: string | undefined, now: number): number | null {
  const number = numberIn(text)
  if (number === null) return null
  return Math.max(0, number > 1_000_000_000 ? number * 1000 - now : number * 1000)
}
