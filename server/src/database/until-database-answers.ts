import { setTimeout as delay } from 'node:timers/promises'

const LONGEST_MS = 120_000

/** Errors of the connection, of a server that is starting or stopping, and of two transactions that met. */
const PASSING = /^(08|57P0|40001|40P01|53300|55P03)/
const PASSING_CODES = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EPIPE', 'ETIMEDOUT'])

/**
 * Repeats a conditional update while the database is away. Repeating is safe: what was committed before its answer got
 * lost matches no row the second time, and the caller is told that the run is no longer its own, which is then true.
 */
export async function untilDatabaseAnswers<T>(act: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + LONGEST_MS
  for (let wait = 50; ; wait = Math.min(wait * 2, 2000)) {
    try {
      return await act()
    } catch (error) {
      const code = (error as { code?: string }).code ?? ''
      const passing =
        PASSING.test(code) || PASSING_CODES.has(code) || /terminat|timeout|connection/i.test((error as Error).message)
      if (!passing || Date.now() > deadline) throw error
      await delay(wait)
    }
  }
}
