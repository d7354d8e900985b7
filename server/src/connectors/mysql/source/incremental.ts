/**
 * Reads a stream in the order of a cursor column. Every row has two hidden values after its record, the cursor's and the
 * row's identity; they show exactly what has been read, whatever columns the pipeline selected.
 *
 * Ties: a later read begins at the last value, not after it, and drops the rows of that value that were read before
 * (cursor/tie-group.ts). Rows without a value come first, and only in the first run.
 */
import type { Json } from '../../../json/json.ts'
import { type ColumnChoice, ConnectorError, type ReadRange, type RunLog, type Sync } from '../../contract.ts'
import { type CursorState, readStart, SEEN_LIMIT } from '../../cursor/cursor-state.ts'
import { createTieGroup, type TieGroup } from '../../cursor/tie-group.ts'
import { comparable, fingerprintOf, literal, type SourceColumn, textOf } from './column.ts'
import { findColumn, type Projection, projectColumns } from './projection.ts'
import type { Relation } from './relation.ts'

export interface ReadPlan {
  sql: string
  projection: Projection
  /** Null if the rows are read in any order. */
  ties: TieGroup | null
  /** What the log says once everything was read. */
  reportEnd(): void
}

interface PlanInput {
  relation: Relation
  sync: Sync
  columns: ColumnChoice
  state: Json
  resume: Json
  /** Of a back-fill. */
  range?: ReadRange
  log: RunLog
}

export function planIncremental(input: PlanInput): ReadPlan {
  const { relation, sync, columns, range, log } = input
  if (sync.cursor_field === null)
    throw new ConnectorError('config', 'An incremental sync needs config.sync.cursor_field, the column to resume by')
  const cursor = findColumn(relation, sync.cursor_field, 'sync.cursor_field')
  if (sync.lookback_seconds > 0) checkLookback(sync, cursor)
  const projection = projectColumns(relation, columns)
  const { start, resumed } = readStart(input)
  const identity = chooseIdentity(relation, sync, start, log)
  const lookback = resumed === null && !range && start?.cursor != null && sync.lookback_seconds > 0
  // Rows merged by key may be read again; missing one would be worse.
  const rereadTies = resumed === null && sync.write === 'upsert'
  const where = lookback
    ? `WHERE ${comparable(cursor)} >= ${literal(cursor, start.cursor!)} - INTERVAL ${sync.lookback_seconds} SECOND`
    : buildWhere(relation, cursor, identity, start, { resuming: resumed !== null, ignoreAfter: rereadTies })
  const end = range ? ` AND ${comparable(cursor)} < ${literal(cursor, String(range.to))}` : ''
  const ties = createTieGroup({
    readCursor: (text) => (text === '' ? null : text.slice(1)),
    identity: identity.names,
    boundary: start?.cursor ?? null,
    known: lookback || !identity.comparable ? [] : (start?.seen ?? []),
    inside: start?.after !== undefined && identity.comparable && !rereadTies && !lookback,
    missing: start === null ? 0 : (start.missing ?? null),
  })
  const list = [...projection.list, textOf(cursor), identity.sql].join(', ')
  // NULL sorts before every value.
  const order = [comparable(cursor), ...identity.order].join(', ')
  return {
    sql: `SELECT ${list} FROM ${relation.from} AS t ${where}${end} ORDER BY ${order}`,
    projection,
    ties,
    reportEnd: () => reportEnd(ties, cursor.name, log),
  }
}

function checkLookback(sync: Sync, { own }: SourceColumn): void {
  if (sync.write !== 'upsert')
    throw new ConnectorError(
      'config',
      'config.sync.lookback_seconds reads rows again, so it needs config.sync.write upsert; append would double them',
    )
  if (!['date', 'datetime', 'timestamp'].includes(own.base))
    throw new ConnectorError(
      'config',
      `config.sync.lookback_seconds needs a cursor that is a time; ${sync.cursor_field} is ${own.base}`,
    )
}

interface Identity {
  names: string[]
  /** The columns are a key and identify a row. */
  isKey: boolean
  sql: string
  order: string[]
  /** The identities in the state can be compared with what is read now. */
  comparable: boolean
}

function chooseIdentity(relation: Relation, sync: Sync, start: CursorState | null, log: RunLog): Identity {
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
  const names = known ? kept! : fresh
  const found = names.map((name) => findColumn(relation, name, 'sync.primary_key'))
  const isKey =
    sync.write === 'append' &&
    declared.length === names.length &&
    declared.every((name) => names.includes(name)) &&
    found.every(({ form }) => form !== 'json')
  const sql = isKey
    ? `JSON_ARRAY(${found.map(textOf).join(', ')})`
    : `MD5(JSON_ARRAY(${found.map(fingerprintOf).join(', ')}))`
  return { names, isKey, sql, order: isKey ? found.map(comparable) : [sql], comparable: known }
}

function buildWhere(
  relation: Relation,
  cursor: SourceColumn,
  identity: Identity,
  start: CursorState | null,
  options: { resuming: boolean; ignoreAfter: boolean },
): string {
  if (start === null) return ''
  const column = comparable(cursor)
  const after =
    start.after !== undefined && identity.comparable && !options.ignoreAfter
      ? readAfter(relation, identity, start.after)
      : null
  const place = identity.order.join(', ')
  if (start.cursor === null) {
    if (!options.resuming) return `WHERE ${column} IS NOT NULL`
    return after === null ? '' : `WHERE (${column} IS NOT NULL OR (${place}) >= (${after}))`
  }
  const value = literal(cursor, start.cursor)
  if (after === null) return `WHERE ${column} >= ${value}`
  return `WHERE ${column} >= ${value} AND (${column} > ${value} OR (${place}) >= (${after}))`
}

function readAfter(relation: Relation, identity: Identity, after: string): string {
  if (!identity.isKey) return /^[0-9a-f]{32}$/.test(after) ? `'${after}'` : "''"
  const values = JSON.parse(after) as (string | null)[]
  return identity.names
    .map((name, index) => literal(findColumn(relation, name, 'sync.primary_key'), values[index] ?? ''))
    .join(', ')
}

function reportEnd(ties: TieGroup, field: string, log: RunLog): void {
  if (ties.missing > 0)
    log.info(
      `${ties.missing} rows have no value in ${field}. They were read now, in the first run, and will not be read again.`,
    )
  if (ties.overflown)
    log.warn(
      `More than ${SEEN_LIMIT} rows share the last value of ${field} (fewer where their keys are long): some rows that arrive later with that same value may not be read. Use a cursor with finer values to avoid this.`,
    )
}
