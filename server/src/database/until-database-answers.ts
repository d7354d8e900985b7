import { setTimeout as delay } from 'node:timers/promises'
import { isUnreachable } from './unreachable.ts'

const LONGEST_MS = 120_000

/** Serialization failure, deadlock, lock timeout, statement timeout, idle transaction timeout. */
const CONFLICTS = new Set(['40001', '40P01', '55P03', '57014', '25P03'])

/**
 * Repeats a conditional update while the database is unavailable. Repeating is safe: if it was committed but its answer
 * got lost, it matches no row the second time, and the caller is told that it no longer owns the run, which is then
 * true.
 */
export async function untilDatabaseAnswers<T>(act: () => Promise<T>, atMostMs = LONGEST_MS): Promise<T> {
  const deadline = Date.now() + atMostMs
  for (let wait = 50; ; wait = Math.min(wait * 2, 2000)) {
    try {
      return await act()
    } catch (error) {
      const transient = isUnreachable(error) || CONFLICTS.has((error as { code?: string }).code ?? '')
      if (!transient || Date.now() > deadline) throw error
      await delay(wait)
    }
  }
}
