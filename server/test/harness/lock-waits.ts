import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { type Queryable, sql } from '../../src/database/database.ts'

/** Resolves when so many statements in this database wait for a lock. */
export async function untilWaitingForLocks(db: Queryable, count = 1): Promise<void> {
  const deadline = Date.now() + 30_000
  for (;;) {
    const row = await db.first<{ waiting: number }>(sql`
      SELECT count(*) AS waiting FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
    if (row!.waiting >= count) return
    assert.ok(Date.now() < deadline, `${row!.waiting} of ${count} statements reached the lock`)
    await pause(2)
  }
}
