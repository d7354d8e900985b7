/** What /readyz tells: whether the database can be written, the store answers, and claims and schedules go on. */
import { setTimeout as delay } from 'node:timers/promises'
import type { BlobStore } from '../blobs/blobs.ts'
import { type Database, sql } from '../database/database.ts'

/** What the roles of this process say about themselves. */
export interface RoleState {
  queue: string
  sandbox: string
  /** When this worker last looked for runs, or was full; absent where there is none. */
  claimedAt?: number
  /** When this scheduler last looked for due pipelines. */
  tickedAt?: number
}

export type Readiness = Record<'database' | 'store' | 'queue' | 'sandbox', string>

const PROBE_MS = 2000
/** An object store is not asked more often than this. */
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

function describeQueue({ queue, claimedAt, tickedAt }: RoleState): string {
  if (queue !== 'ok') return queue
  const now = Date.now()
  if (claimedAt !== undefined && now - claimedAt > STALE_MS)
    return `no run was looked for in ${Math.round((now - claimedAt) / 1000)} s`
  if (tickedAt !== undefined && now - tickedAt > STALE_MS)
    return `no schedule was looked at in ${Math.round((now - tickedAt) / 1000)} s`
  return 'ok'
}
