/**
 * Rows without a value in the cursor column. The first run reads them; no later one can know which of them are new. So
 * later runs count them, within a short time, and say how many there are beyond those that were read.
 */
import type { RunLog } from '../../contract.ts'
import type { CursorState } from '../../cursor/cursor-state.ts'
import { codeOf, sqlState } from '../shared/errors.ts'
import { quoteName } from '../shared/names.ts'
import { inTransaction, type Session } from '../shared/session.ts'
import { readInteger } from '../shared/values.ts'
import type { Relation, SourceColumn } from './relation.ts'

const LONGEST_SECONDS = 2
const MOST = 10_000

export async function reportMissing(
  session: Session,
  relation: Relation,
  cursor: SourceColumn,
  { state, log }: { state: CursorState; log: RunLog },
): Promise<void> {
  if (cursor.nullable === false) return
  const known = state.missing ?? 0
  const found = await countMissing(session, relation, cursor, known + MOST + 1)
  const { name } = cursor
  if (found === null) {
    log.info(
      `The rows without a value in ${name} could not be counted within ${LONGEST_SECONDS} seconds; an index on it helps. Only the first run reads such rows.`,
    )
  } else if (found > known) {
    const more = found - known
    const number = more > MOST ? `More than ${MOST}` : String(more)
    log.warn(
      state.missing === undefined
        ? `${number} rows have no value in ${name}. Those that came after the first run are not read.`
        : `${number} more rows have no value in ${name} than in the first run. They are not read until they get one.`,
    )
  }
}

/** Null where it takes too long. */
async function countMissing(
  session: Session,
  { from }: Relation,
  { name }: SourceColumn,
  most: number,
): Promise<number | null> {
  try {
    return await inTransaction(session, async () => {
      await session.script(`SET LOCAL statement_timeout = '${LONGEST_SECONDS}s'`)
      const [row] = await session.query(
        `SELECT count(*) AS rows FROM (SELECT FROM ${from} AS t WHERE t.${quoteName(name)} IS NULL LIMIT ${most}) AS missing`,
        [],
        { rows: readInteger },
      )
      return row?.rows ?? 0
    })
  } catch (error) {
    if (codeOf(error) === sqlState.queryCanceled) return null
    throw error
  }
}
