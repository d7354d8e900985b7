import { type Queryable, sql } from '../database/database.ts'

/** Deletes what can never be used again. */
export async function deleteExpiredRows(db: Queryable): Promise<void> {
  await db.execute(sql`DELETE FROM sessions WHERE expires_at < now() - interval '1 day'`)
  await db.execute(sql`DELETE FROM login_attempts WHERE window_start < now() - interval '1 hour'`)
  await db.execute(sql`DELETE FROM idp_states WHERE expires_at < now()`)
}
