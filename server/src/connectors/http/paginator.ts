/** Which page follows a page. */
import type { Json } from '../../json/json.ts'
import type { Injection, Scope, Value } from './scope.ts'

export interface Paginator {
  /** The token of the first page; null if the first request carries none. */
  first: Value<Json>
  /**
   * The token of the page after the one in scope (`answer`, `token`, `lastRecord`, `pageRecords`), or null if it was the
   * last. A token that was already used ends the read with an error: the API repeats itself.
   */
  next(scope: Scope): Json
  /** The token after a token, for pages that can be requested before the one before is answered. */
  ahead?(token: Json): Json
  /** Where the token goes. */
  inject: TokenPlaces | ((token: Json) => TokenPlaces)
  /** The page size and where it goes, in every request. */
  size: { value: Value<Json>; inject: Injection } | null
}

/** `url`: the token is the address of the page, relative to that of the request. */
export type TokenPlaces = readonly (Injection | { into: 'url' })[]

export interface CountedPages {
  /** The first request carries its token as well. */
  firstInjected: boolean
  /** Fewer records than this end the read; null: only an empty page does. */
  pageSize: Value<number | null>
  inject: readonly Injection[]
  size: Paginator['size']
  /** A further reason to stop after the page in scope. */
  stop?: Value<boolean>
  /** False: an empty page is not the last one. */
  stopAfterEmpty?: boolean
}

/** Page numbers: `start`, `start + 1`… */
export function pageNumbers({ start, ...plan }: CountedPages & { start: number }): Paginator {
  return {
    first: () => (plan.firstInjected ? start : null),
    next: (scope) => (isLast(plan, scope) ? null : numberOf(scope.token, start) + 1),
    ahead: (token) => numberOf(token, start) + 1,
    inject: plan.inject,
    size: plan.size,
  }
}

/**
 * Offsets. `step` is the number to add for a page: usually its records, or a fixed size, without which no page can be
 * requested ahead.
 */
export function offsets({ start, step, ...plan }: CountedPages & { start: number; step: number | null }): Paginator {
  return {
    first: () => (plan.firstInjected ? start : null),
    next: (scope) => (isLast(plan, scope) ? null : numberOf(scope.token, start) + (step ?? scope.pageRecords)),
    ...(step === null ? {} : { ahead: (token: Json) => numberOf(token, start) + step }),
    inject: plan.inject,
    size: plan.size,
  }
}

/** The token is computed from the page: a link or a cursor in its body or headers. Null, '' and false end the read. */
export function tokens(
  plan: Pick<Paginator, 'inject' | 'size'> & { value: Value<Json>; stop?: Value<boolean>; first?: Value<Json> },
): Paginator {
  return {
    first: plan.first ?? (() => null),
    next: (scope) => (plan.stop?.(scope) ? null : plan.value(scope) || null),
    inject: plan.inject,
    size: plan.size,
  }
}

function isLast({ pageSize, stop, stopAfterEmpty }: CountedPages, scope: Scope): boolean {
  if (scope.pageRecords === 0 && stopAfterEmpty !== false) return true
  const size = pageSize(scope)
  return (size !== null && scope.pageRecords < size) || (stop?.(scope) ?? false)
}

const numberOf = (token: Json, start: number): number => (typeof token === 'number' ? token : start)
