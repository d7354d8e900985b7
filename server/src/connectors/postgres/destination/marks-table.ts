/** The table of marks in a target schema: created if missing, and upgraded if an older release created it. */
import { setTimeout as delay } from 'node:timers/promises'
import { ConnectorError } from '../../contract.ts'
import { codeOf, sqlState } from '../shared/errors.ts'
import { quoteName, quoteTable } from '../shared/names.ts'
import { inTransaction, type Session } from '../shared/session.ts'
import { readBoolean } from '../shared/values.ts'

export const marksTable = '_sluice_marks'

/** What later releases added. Rows of older ones have null there. */
const ADDED = ['token text', 'installation text']

const LOCK_WAIT_SECONDS = 1
const PAUSE_MS = 500
const TRIES = 90

export function marksOf(schema: string): string {
  return quoteTable({ schema, table: marksTable })
}

/**
 * Creates schema and table if they are missing. Two sessions doing so at once would collide in the catalog, so they
 * take turns.
 */
export async function ensureMarks(session: Session, schema: string): Promise<void> {
  const state = await inTransaction(session, async () => {
    const [table] = await session.query(
      `SELECT to_regclass($1) IS NOT NULL AS found,
            (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname IN ('token', 'installation') AND NOT attisdropped) = 2 AS current`,
      [marksOf(schema)],
      { found: readBoolean, current: readBoolean },
    )
    if (table?.found) return table.current ? 'current' : 'outdated'
    await createMarks(session, schema)
    return 'current'
  })
  if (state === 'outdated') await upgradeMarks(session, schema)
}

async function createMarks(session: Session, schema: string): Promise<void> {
  await session.script("SELECT pg_advisory_xact_lock(hashtextextended('sluice marks', 0))")
  const [spaces] = await session.query('SELECT to_regnamespace($1) IS NOT NULL AS found', [quoteName(schema)], {
    found: readBoolean,
  })
  if (!spaces?.found) await session.script(`CREATE SCHEMA ${quoteName(schema)}`)
  await session.script(
    `CREATE TABLE IF NOT EXISTS ${marksOf(schema)} (
       pipeline_id text PRIMARY KEY, run_id text NOT NULL, seq int8 NOT NULL, attempt int4 NOT NULL, checkpoint int8 NOT NULL,
       cursor json, base_cursor json, published boolean NOT NULL, stage text, updated_at timestamptz NOT NULL DEFAULT now(),
       ${ADDED.join(', ')}
     ) WITH (fillfactor = 50);
     COMMENT ON TABLE ${marksOf(schema)} IS 'How far Sluice has loaded each pipeline. Written together with the rows; keep it with them.'`,
  )
}

/**
 * Adds the missing columns. The lock that needs waits for loads under way, and whoever comes after it waits behind it; so
 * it is tried for a second at a time.
 */
async function upgradeMarks(session: Session, schema: string): Promise<void> {
  const change = `ALTER TABLE ${marksOf(schema)} ${ADDED.map((column) => `ADD COLUMN IF NOT EXISTS ${column}`).join(', ')}`
  for (let tries = 1; ; tries += 1) {
    try {
      return await inTransaction(session, () =>
        session.script(`SET LOCAL lock_timeout = '${LOCK_WAIT_SECONDS}s'; ${change}`),
      )
    } catch (error) {
      if (codeOf(error) === sqlState.insufficientPrivilege) throw notOwner(schema, change, error)
      if (codeOf(error) !== sqlState.lockNotAvailable || tries === TRIES) throw error
    }
    await delay(PAUSE_MS)
  }
}

const notOwner = (schema: string, change: string, cause: unknown): ConnectorError =>
  new ConnectorError(
    'auth',
    `This release needs two more columns in ${schema}.${marksTable}, and only the owner of that table can add them. Let the owner run this once: ${change}`,
    { cause },
  )
