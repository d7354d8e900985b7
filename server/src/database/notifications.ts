/** What processes tell each other through NOTIFY. It only wakes: whoever hears it looks at the rows, and whoever missed it looks by itself later. */
import { type Statement, sql } from './sql.ts'

/** One channel for everything that processes tell each other about runs. */
export const CHANNEL = 'sluice'
export type Message = 'ready' | 'cancel' | 'log' | 'state' | 'delivery' | 'follow'
export const notifyRun = (message: Message, runId = ''): Statement =>
  sql`SELECT pg_notify(${CHANNEL}, ${`${message} ${runId}`.trim()})`

export function readMessage(payload: string): { message: Message; run_id: string } {
  const [message, run_id] = payload.split(' ')
  return { message: message as Message, run_id: run_id ?? '' }
}
