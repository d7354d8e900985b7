/**
 * When a key was last used. Uses are collected in memory and written in batches, at most twice a second: a busy key costs
 * one small write, and no request waits for it or fails because of it.
 */
import { type Queryable, sql } from '../database/database.ts'

const EVERY_MS = 500

export interface KeyUses {
  note(keyId: string): void
  flush(): Promise<void>
}

export function createKeyUses(db: Queryable, onError: (error: Error) => void): KeyUses {
  const used = new Map<string, Date>()
  let timer: NodeJS.Timeout | undefined

  const flush = async () => {
    clearTimeout(timer)
    timer = undefined
    if (used.size === 0) return
    const batch = [...used]
    used.clear()
    const ids = batch.map(([id]) => id)
    const times = batch.map(([, at]) => at)
    try {
      // Rows are locked in order, so that two processes that write the same keys cannot deadlock.
      await db.execute(sql`
        WITH locked AS (SELECT id FROM api_keys WHERE id = ANY (${ids}::uuid[]) ORDER BY id FOR NO KEY UPDATE)
        UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, u.at)
          FROM locked JOIN unnest(${ids}::uuid[], ${times}::timestamptz[]) AS u (id, at) ON u.id = locked.id WHERE k.id = locked.id`)
    } catch (error) {
      // Kept for the next write, which the next use triggers.
      for (const [id, at] of batch) if (!used.has(id)) used.set(id, at)
      onError(error as Error)
    }
  }
  return {
    note(keyId) {
      used.set(keyId, new Date())
      timer ??= setTimeout(() => void flush(), EVERY_MS).unref()
    },
    flush,
  }
}
