/**
 * Messages between processes through NOTIFY. They only wake: the receiver looks at the rows, and one that missed a
 * message polls later.
 */
import { type Statement, sql } from './sql.ts'

/** One channel for all messages about runs. */
export const CHANNEL = 'sluice'
export type Message = 'ready' | 'cancel' | 'log' | 'state' | 'delivery' | 'follow'
export const notifyRun = (message: Message, runId = ''): Statement =>
  sql`SELECT pg_notify(${CHANNEL}, ${`${message} ${runId}`.trim()})`

export function readMessage(payload: string): { message: Message; run_id: string } {
  const [message, run_id] = payload.split(' ')
  return { message: message as Message, run_id: run_id ?? '' }
}

/** Wakes as many workers as there are runs to begin, of those that listen and were not `tried`. */
export const wakeWorkers = (runs: number, tried: readonly number[] = []): Statement =>
  sql`SELECT wake_workers(${runs}, ${tried}::int[])`

/** The seats of the workers that a message 'ready' is for (null: all of them), and of those that it has been to. */
export function readSeats(payload: string): { seats: number[] | null; tried: number[] } {
  const [, seats, tried] = payload.split(' ').map((part) => part.split(',').filter(Boolean).map(Number))
  return { seats: seats ?? null, tried: tried ?? [] }
}
