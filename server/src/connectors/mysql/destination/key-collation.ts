/**
 * Keys that the server takes for one although they differ. A table of ours compares texts by their bytes; one that somebody
 * else made usually does not, and an upsert would merge 'a' and 'A' without a word.
 */
import type { RunLog } from '../../contract.ts'
import { quoteName, quoteText, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { orNull, readText } from '../shared/values.ts'
import { exactCollation } from './table.ts'

/** What this collation does not tell apart, or null if it compares bytes. */
function findEqual(collation: string): string | null {
  if (collation === 'binary' || /_(nopad|0900)_bin$/.test(collation)) return null
  return collation.endsWith('_bin')
    ? "trailing blanks, such as 'a' and 'a '"
    : "case, accents or blanks, such as 'a' and 'A'"
}

export async function warnOfCollation(
  session: Session,
  { database, table }: TableName,
  key: readonly string[],
  log: RunLog,
): Promise<void> {
  const rows = await session.query(
    `SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLLATION_NAME FROM information_schema.COLUMNS
     WHERE TABLE_SCHEMA = ${quoteText(database)} AND TABLE_NAME = ${quoteText(table)} ORDER BY ORDINAL_POSITION`,
    { name: readText, type: readText, nullable: readText, collation: orNull(readText) },
  )
  for (const { name, type, nullable, collation } of rows) {
    const equal = collation !== null && key.includes(name) ? findEqual(collation) : null
    if (equal === null) continue
    const column = `${quoteName(name)} ${type} CHARACTER SET utf8mb4 COLLATE ${exactCollation(session)}`
    log.warn(
      `The key column ${name} of ${table} has the collation ${collation}, so records whose keys differ only in ${equal}, are merged into one row. To keep them apart: ALTER TABLE ${quoteName(table)} MODIFY ${column}${nullable === 'NO' ? ' NOT NULL' : ''}.`,
    )
  }
}
