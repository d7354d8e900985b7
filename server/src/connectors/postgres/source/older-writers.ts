/**
 * Rows that commit late. A transaction takes 5 from a sequence, another takes 10 and commits first: whoever reads up to 10
 * now and goes on from there later never sees 5. The same happens to times that are taken when a transaction begins. So:
 *
 *   1. the highest value that can be seen is the bound of this read;
 *   2. whoever may hold a lower one is waited for: every transaction that has written to the tables, by its locks;
 *   3. only then is the snapshot taken, and rows are read up to the bound.
 *
 * A transaction that comes after (2) takes its lock first and its value after that, so the value is above the bound, and a
 * later read finds it. That is as true as it is that later rows get higher values: sequences with a CACHE, and values that
 * a program takes before it begins to write, are not covered.
 *
 * The tables are those that our own transaction has locked by asking for the bound; views and queries have theirs too.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { RunLog } from '../../contract.ts'
import { codeOf, sqlState } from '../shared/errors.ts'
import { quoteName } from '../shared/names.ts'
import { inTransaction, type Session } from '../shared/session.ts'
import { readBoolean, readText } from '../shared/values.ts'
import type { Relation, SourceColumn } from './relation.ts'

/** Undefined: there is none, and everything is read. Null: no row has a value. */
export type Bound = string | null | undefined

interface Wait {
  signal: AbortSignal
  log: RunLog
  seconds: number
}

const FIRST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 500
const SAY_AFTER_MS = 2000
/** Below this are the tables of the system. */
const FIRST_OWN_OID = 16384
const writing = "('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')"

/** Fixes the bound of a read and waits for the writers that are older. */
export async function waitForWriters(
  session: Session,
  relation: Relation,
  cursor: SourceColumn,
  wait: Wait,
): Promise<Bound> {
  if (wait.seconds === 0) return undefined
  try {
    const fixed = await inTransaction(session, () => fixBound(session, relation, cursor))
    if (fixed !== null) {
      await waitFor(session, fixed, cursor.name, wait)
      return fixed.bound
    }
    wait.log.warn(
      `The server is a standby, where transactions that still write cannot be seen: rows that commit late with a lower ${cursor.name} than others are not read. Read from the primary to avoid it.`,
    )
  } catch (error) {
    if (codeOf(error) !== sqlState.insufficientPrivilege) throw error
    wait.log.warn(
      `The role may not read pg_locks, so transactions that still write are not waited for: rows that commit late with a lower ${cursor.name} than others are not read. Grant it SELECT on pg_locks.`,
    )
  }
  return undefined
}

/** Null on a standby. */
async function fixBound(
  session: Session,
  { from }: Relation,
  { name }: SourceColumn,
): Promise<{ bound: string | null; writers: string[] } | null> {
  const [server] = await session.query('SELECT pg_is_in_recovery() AS standby', [], { standby: readBoolean })
  if (server?.standby) return null
  const column = `t.${quoteName(name)}`
  const [highest] = await session.query(
    `SELECT ${column}::text AS value FROM ${from} AS t WHERE ${column} IS NOT NULL ORDER BY ${column} DESC LIMIT 1`,
    [],
    { value: readText },
  )
  const writers = await session.query(
    `SELECT DISTINCT other.virtualtransaction AS writer FROM pg_locks own JOIN pg_locks other
       ON other.locktype = 'relation' AND other.database = own.database AND other.relation = own.relation
     WHERE own.pid = pg_backend_pid() AND own.locktype = 'relation' AND own.relation::int8 >= ${FIRST_OWN_OID}
       AND other.pid IS DISTINCT FROM own.pid AND other.granted AND other.mode IN ${writing}`,
    [],
    { writer: readText },
  )
  return { bound: highest?.value ?? null, writers: writers.map(({ writer }) => writer) }
}

/** Each look is a transaction of its own, so that none of ours is open while we wait. */
async function waitFor(
  session: Session,
  { writers, bound }: { writers: readonly string[]; bound: string | null },
  field: string,
  { signal, log, seconds }: Wait,
): Promise<void> {
  const began = performance.now()
  let left = writers
  let said = false
  for (let pause = FIRST_PAUSE_MS; left.length > 0; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    const waited = performance.now() - began
    if (waited >= seconds * 1000) {
      const rows = bound === null ? '' : ` with ${field} up to ${bound}`
      log.warn(
        `${count(left)} written to the stream and not ended within ${seconds} seconds. Rows that they commit after this${rows} will not be read. Keep transactions short, or raise wait_for_writers_seconds.`,
      )
      return
    }
    if (waited >= SAY_AFTER_MS && !said) {
      said = true
      log.info(`Waiting for ${left.length} transactions that have written to the stream and not ended.`)
    }
    await delay(pause, undefined, { signal })
    left = await inTransaction(session, () => findOpen(session, left))
  }
}

const count = (writers: readonly string[]): string =>
  writers.length === 1 ? 'A transaction has' : `${writers.length} transactions have`

async function findOpen(session: Session, writers: readonly string[]): Promise<string[]> {
  const rows = await session.query(
    `SELECT DISTINCT virtualtransaction AS writer FROM pg_locks
     WHERE virtualtransaction = ANY($1::text[]) AND locktype = 'relation' AND mode IN ${writing}`,
    [writers],
    { writer: readText },
  )
  return rows.map(({ writer }) => writer)
}
