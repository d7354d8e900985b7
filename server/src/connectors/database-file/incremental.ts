/**
 * Reads a stream in the order of a cursor column. Every row has two hidden values after its record, the cursor's and what
 * identifies the row; they show exactly what has been read, whatever columns the pipeline selected.
 *
 * Ties: a later read begins at the last value, not after it, and drops the rows of that value that were read before
 * (cursor/tie-group.ts). Rows without a value come first, and only in the first run.
 */
import { type Column, ConnectorError, type ReadContext, type RunLog, type Sync } from '../contract.ts'
import { type CursorState, readStart, SEEN_LIMIT } from '../cursor/cursor-state.ts'
import { createTieGroup, type TieGroup } from '../cursor/tie-group.ts'
import { partsOf } from '../types/column-types.ts'
import { type Relation, requireColumn } from './relation.ts'

/** How a system writes what such a read needs, as SQL. */
export interface CursorDialect {
  /** The column as it is ordered and compared. */
  comparable(column: Column): string
  /** Its value as text, which `literal` takes; null if it has none. */
  text(column: Column): string
  literal(column: Column, text: string): string
  /** A value that lies so many seconds before this one. */
  before(column: Column, text: string, seconds: number): string
  /** A text that is different for rows with different values in these columns, and that has an order. */
  identity(columns: readonly Column[]): string
  quoteIdentity(text: string): string
}

export interface CursorPlan {
  /** Two expressions to select after the columns. */
  hidden: [cursor: string, identity: string]
  /** The column that is ordered by, as SQL. */
  cursor: { column: string; literal(text: string): string }
  /** The WHERE for the rows to read that also meet a condition, if one is given. */
  where(condition?: string | null): string
  /** The ORDER BY. */
  order: string
  ties: TieGroup
  /** What the log says once everything was read. */
  reportEnd(): void
}

type PlanContext = Pick<ReadContext, 'sync' | 'state' | 'resume' | 'range' | 'log'>

export function planIncremental(context: PlanContext, relation: Relation, dialect: CursorDialect): CursorPlan {
  const { sync, range, log } = context
  const cursor = requireCursor(relation, sync)
  const { start, resumed } = readStart(context)
  const { names, known } = chooseIdentity(relation, sync, start, log)
  const row = dialect.identity(names.map((name) => requireColumn(relation, name, 'sync.primary_key')))
  const lookback = resumed === null && !range && start?.cursor != null && sync.lookback_seconds > 0
  // Rows merged by key may be read again; missing one would be worse.
  const rereadTies = resumed === null && sync.write === 'upsert'
  const column = dialect.comparable(cursor)
  const after = known && !rereadTies && start?.after !== undefined ? dialect.quoteIdentity(start.after) : null
  const where = lookback
    ? `${column} >= ${dialect.before(cursor, start.cursor!, sync.lookback_seconds)}`
    : buildWhere({ column, row, start, after, value: (text) => dialect.literal(cursor, text) }, resumed !== null)
  const end = range ? `${column} < ${dialect.literal(cursor, String(range.to))}` : null
  const ties = createTieGroup({
    readCursor: (text) => (text === '' ? null : text.slice(1)),
    identity: names,
    boundary: start?.cursor ?? null,
    known: lookback || !known ? [] : (start?.seen ?? []),
    inside: after !== null && !lookback,
    missing: start === null ? 0 : (start.missing ?? null),
  })
  return {
    hidden: [dialect.text(cursor), row],
    cursor: { column, literal: (text) => dialect.literal(cursor, text) },
    where(condition = null) {
      const conditions = [where, end, condition].filter((each) => each !== null).map((each) => `(${each})`)
      return conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`
    },
    order: `ORDER BY ${column} NULLS FIRST, ${row}`,
    ties,
    reportEnd: () => reportEnd(ties, cursor.name, log),
  }
}

function requireCursor(relation: Relation, sync: Sync): Column {
  if (sync.cursor_field === null)
    throw new ConnectorError('config', 'An incremental sync needs config.sync.cursor_field, the column to resume by')
  const cursor = requireColumn(relation, sync.cursor_field, 'sync.cursor_field')
  const { base, list } = partsOf(cursor.type)
  if (list || base === 'json' || base === 'bytes')
    throw new ConnectorError(
      'config',
      `config.sync.cursor_field ${cursor.name} is ${cursor.type}, which has no useful order`,
    )
  if (sync.lookback_seconds > 0 && !['date', 'timestamp', 'timestamptz'].includes(base))
    throw new ConnectorError(
      'config',
      `config.sync.lookback_seconds needs a cursor that is a time; ${cursor.name} is ${cursor.type}`,
    )
  return cursor
}

function chooseIdentity(relation: Relation, sync: Sync, start: CursorState | null, log: RunLog) {
  const columns = relation.columns.map(({ name }) => name)
  const declared =
    relation.primaryKey.length > 0 ? relation.primaryKey : sync.primary_key.filter((name) => columns.includes(name))
  // A row that changed within the same tick has the same key: when rows are merged, the whole row is compared.
  const fresh = declared.length > 0 && sync.write === 'append' ? declared : columns
  const kept = start?.identity
  const known = kept?.every((name) => columns.includes(name)) ?? false
  if (kept && !known)
    log.warn(
      'Columns that distinguished rows with the last cursor value are gone: rows with that value are read again.',
    )
  return { names: known ? kept! : fresh, known }
}

interface Where {
  column: string
  row: string
  start: CursorState | null
  after: string | null
  value(text: string): string
}

function buildWhere({ column, row, start, after, value }: Where, resuming: boolean): string | null {
  if (start === null) return null
  if (start.cursor === null) {
    if (!resuming) return `${column} IS NOT NULL`
    return after === null ? null : `${column} IS NOT NULL OR ${row} >= ${after}`
  }
  const boundary = value(start.cursor)
  if (after === null) return `${column} >= ${boundary}`
  return `${column} >= ${boundary} AND (${column} > ${boundary} OR ${row} >= ${after})`
}

function reportEnd(ties: TieGroup, field: string, log: RunLog): void {
  if (ties.missing > 0)
    log.info(
      `${ties.missing} rows have no value in ${field}. They were read now, in the first run, and will not be read again.`,
    )
  if (ties.overflown)
    log.warn(
      `More than ${SEEN_LIMIT} rows share the last value of ${field}: some rows that arrive later with that same value may not be read. Use a cursor with finer values to avoid this.`,
    )
}
