/**
 * Re-encrypts everything with the current key while the service runs. Each value is one conditional update that only
 * takes effect if the value is still the one that was decrypted, so a concurrent save wins. Values that already use the
 * newest key are skipped, so this can be stopped at any point and started again.
 *
 * A pass covers what was there when it came by. Passes repeat until one finds nothing left, because a process that was
 * started before the new key was set still writes with the old one.
 */
import { type Database, raw, sql } from './database.ts'
import { NIL_UUID } from './lists.ts'
import { type SecretBox, SecretLost } from './secret-box.ts'

/** Every column with encrypted values. A test compares this with the schema. */
export const SEALED_COLUMNS = [
  { table: 'saved_connectors', column: 'config_box' },
  { table: 'pipelines', column: 'config_box' },
  { table: 'runs', column: 'config_box' },
  { table: 'webhooks', column: 'secret_box' },
  { table: 'alerts', column: 'channel_box' },
  { table: 'used_configs', column: 'config_box' },
] as const

export interface RotationProgress {
  table: string
  sealed: number
  /** Ids of rows that cannot be decrypted with any key. */
  lost: string[]
}

const BATCH = 200

export async function rotateKeys(
  db: Database,
  box: SecretBox,
  report: (progress: RotationProgress) => void,
  signal: AbortSignal,
): Promise<RotationProgress[]> {
  const all = SEALED_COLUMNS.map(({ table }) => ({ table, sealed: 0, lost: [] as string[] }))
  for (let found = true; found && !signal.aborted; ) {
    found = false
    for (const [index, place] of SEALED_COLUMNS.entries()) {
      const progress = all[index]!
      progress.lost = []
      if ((await rotateColumn({ db, box, report, signal }, place, progress)) > 0) found = true
    }
  }
  return all
}

interface Rotation {
  db: Database
  box: SecretBox
  report: (progress: RotationProgress) => void
  signal: AbortSignal
}

/** How many stale values could be decrypted, whether or not someone else changed them first. */
async function rotateColumn(
  { db, box, report, signal }: Rotation,
  place: (typeof SEALED_COLUMNS)[number],
  progress: RotationProgress,
): Promise<number> {
  let opened = 0
  const table = raw(place.table)
  const column = raw(place.column)
  let last = NIL_UUID
  while (!signal.aborted) {
    const rows = await db.query<{ id: string; organization_id: string; sealed: Buffer }>(sql`
      SELECT id, organization_id, ${column} AS sealed FROM ${table}
       WHERE id > ${last} AND ${column} IS NOT NULL AND substr(${column}, 2, 4) <> ${box.currentKeyId} ORDER BY id LIMIT ${BATCH}`)
    for (const row of rows) {
      if (signal.aborted) break
      const seat = { organization_id: row.organization_id, column: `${place.table}.${place.column}`, row_id: row.id }
      const sealed = sealAgain(box, seat, row.sealed)
      if (sealed === null) {
        progress.lost.push(row.id)
        continue
      }
      opened++
      progress.sealed += await db.execute(
        sql`UPDATE ${table} SET ${column} = ${sealed} WHERE id = ${row.id} AND ${column} = ${row.sealed}`,
      )
    }
    if (rows.length > 0) report(progress)
    if (rows.length < BATCH) break
    last = rows.at(-1)!.id
  }
  return opened
}

function sealAgain(box: SecretBox, place: Parameters<SecretBox['seal']>[0], sealed: Buffer): Buffer | null {
  try {
    return box.seal(place, box.open(place, sealed))
  } catch (error) {
    if (error instanceof SecretLost) return null
    throw error
  }
}
