/**
 * When a key was last used. Uses are gathered in memory and written together, at most twice a second: a busy key costs
 * one small write, and no request waits for it or fails with it.
 */
import { type Queryable, sql } from '../storage/database.ts'

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
    try {
      await db.execute(sql`
        UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, u.at)
          FROM unnest(${batch.map(([id]) => id)}::uuid[], ${batch.map(([, at]) => at)}::timestamptz[]) AS u (id, at) WHERE k.id = u.id`)
    } catch (error) {
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
