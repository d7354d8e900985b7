/**
 * The checks behind /readyz: whether the database is writable, the blob store answers, and claims and schedules are
 * being processed.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { BlobStore } from './blobs/blobs.ts'
import { type Database, sql } from './database/database.ts'

/** What the roles of this process report. */
export interface RoleState {
  /** The periodic work of the worker that failed the last time it was done. */
  failing: Set<string>
  sandbox: string
  /** When this worker last looked for runs, or was full; absent if there is no worker. */
  claimedAt?: number
  /** When this scheduler last looked for due pipelines. */
  tickedAt?: number
}

export type Readiness = Record<'database' | 'store' | 'queue' | 'sandbox', string>

const PROBE_MS = 2000
/** An object store is not probed more often than this. */
const STORE_EVERY_MS = 10_000
const STALE_MS = 60_000

export function createReadiness(db: Database, blobs: BlobStore, state: RoleState): () => Promise<Readiness> {
  let store: { at: number; answer: Promise<string> } | null = null
  const probeStore = (): Promise<string> => {
    if (store === null || performance.now() - store.at > STORE_EVERY_MS)
      store = { at: performance.now(), answer: within(blobs.check().then(() => 'ok')) }
    return store.answer
  }
  return async () => {
    const [database, answer] = await Promise.all([probeDatabase(db), probeStore()])
    return { database, store: answer, queue: describeQueue(state), sandbox: state.sandbox }
  }
}

export const isReady = ({ database, store, queue }: Readiness): boolean =>
  database === 'ok' && store === 'ok' && queue === 'ok'

const within = (answer: Promise<string>): Promise<string> =>
  Promise.race([answer.catch(() => 'does not answer'), delay(PROBE_MS, 'does not answer', { ref: false })])

const probeDatabase = (db: Database): Promise<string> =>
  within(
    db
      .first<{ read_only: boolean }>(
        sql`SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS read_only`,
      )
      .then((row) => (row?.read_only ? 'cannot be written' : 'ok')),
  )

function describeQueue({ failing, claimedAt, tickedAt }: RoleState): string {
  if (failing.size > 0) return [...failing].map((what) => `${what} fails`).join('; ')
  const now = Date.now()
  if (claimedAt !== undefined && now - claimedAt > STALE_MS)
    return `the worker has not looked for runs for ${Math.round((now - claimedAt) / 1000)} s`
  if (tickedAt !== undefined && now - tickedAt > STALE_MS)
    return `the scheduler has not looked for due pipelines for ${Math.round((now - tickedAt) / 1000)} s`
  return 'ok'
}
