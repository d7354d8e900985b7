/**
 * When the scheduler has to look again. Schedules fire on whole minutes, so a pipeline that is saved while the scheduler
 * sleeps is not due before the next one. The clock is the database's.
 */
import { type Queryable, sql } from '../database/database.ts'

/** Milliseconds until a pipeline is due, or the next minute begins; 0 or less if one is due now. */
export async function nextDueMs(db: Queryable): Promise<number> {
  const row = await db.first<{ ms: number }>(sql`
    SELECT (extract(epoch FROM least(
              (SELECT next_run_at FROM pipeline_due WHERE next_run_at IS NOT NULL ORDER BY next_run_at LIMIT 1),
              date_trunc('minute', now()) + interval '1 minute') - now()) * 1000)::float8 AS ms`)
  return row!.ms
}
