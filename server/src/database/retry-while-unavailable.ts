import { setTimeout as delay } from 'node:timers/promises'
import { isUnreachable } from './unreachable.ts'

const LONGEST_MS = 120_000

/** Serialization failure, deadlock, lock timeout, statement timeout, idle transaction timeout. */
const CONFLICTS = new Set(['40001', '40P01', '55P03', '57014', '25P03'])

/** The same statement may succeed later. */
export const isTransient = (error: unknown): boolean =>
  isUnreachable(error) || CONFLICTS.has((error as { code?: string }).code ?? '')

/**
 * Repeats a read or a conditional update while the database is unavailable, or while others hold its rows. The result
 * of a repeated update may be that of the second try: if the first was committed but its answer got lost, it matches no
 * row any more, and the caller learns that it no longer owns the run, which is then true.
 */
export async function retryWhileUnavailable<T>(act: () => Promise<T>, atMostMs = LONGEST_MS): Promise<T> {
  const deadline = Date.now() + atMostMs
  for (let wait = 50; ; wait = Math.min(wait * 2, 2000)) {
    try {
      return await act()
    } catch (error) {
      if (!isTransient(error) || Date.now() > deadline) throw error
      await delay(wait)
    }
  }
}
