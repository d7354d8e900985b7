/**
 * Which of Sluice's processes use the database now. Every session of a role carries its name, and the server forgets it with
 * the connection, so there is nothing that a crash could leave behind. Commands carry no role.
 */
import { OperatorError } from '../errors.ts'
import { type Queryable, sql } from './database.ts'

export const ROLE_PREFIX = 'sluice '

/** Such as `worker host:123`. */
export async function listRunningRoles(db: Queryable): Promise<string[]> {
  const rows = await db.query<{ name: string }>(sql`
    SELECT DISTINCT application_name AS name FROM pg_stat_activity
     WHERE datname = current_database() AND application_name LIKE ${`${ROLE_PREFIX}%`} AND pid <> pg_backend_pid() ORDER BY 1`)
  return rows.map(({ name }) => name.slice(ROLE_PREFIX.length))
}

export async function refuseWhileRunning(db: Queryable): Promise<void> {
  const running = await listRunningRoles(db)
  if (running.length === 0) return
  throw new OperatorError(
    `Sluice is running on this database (${running.slice(0, 5).join(', ')}${running.length > 5 ? ', …' : ''}); stop all its processes first. Nothing was changed.`,
  )
}
