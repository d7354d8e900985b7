import { setTimeout as delay } from 'node:timers/promises'
import { isUnreachable } from './unreachable.ts'

const LONGEST_MS = 120_000

/** Two transactions that met, a lock that was not to be had in time, a statement or transaction that took too long. */
const MET = new Set(['40001', '40P01', '55P03', '57014', '25P03'])

/**
 * Repeats a conditional update while the database is away. Repeating is safe: what was committed before its answer got
 * lost matches no row the second time, and the caller is told that the run is no longer its own, which is then true.
 */
export async function untilDatabaseAnswers<T>(act: () => Promise<T>, atMostMs = LONGEST_MS): Promise<T> {
  const deadline = Date.now() + atMostMs
  for (let wait = 50; ; wait = Math.min(wait * 2, 2000)) {
    try {
      return await act()
    } catch (error) {
      const transient = isUnreachable(error) || MET.has((error as { code?: string }).code ?? '')
      if (!transient || Date.now() > deadline) throw error
      await delay(wait)
    }
  }
}
