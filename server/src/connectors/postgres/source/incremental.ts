/**
 * Reads a stream in the order of a cursor column. Every row has two hidden fields after its record: the cursor's value and
 * the row's identity. They show exactly what has been read, whatever columns the pipeline selected, and they are cut off
 * before the page is passed on.
 *
 * Ties: a later read begins at the last value, not after it, and drops the rows of that value that were read before. So a
 * row that arrives later with the same value is read, and none is read twice. Rows without a value come first, and only in
 * the first run. If more rows share a value than can be listed, the read continues in the order of their identity, and the
 * log says what that means. No row above the bound is read: see older-writers.ts.
 */

import type { Json } from '../../../json/json.ts'
import { type ColumnChoice, ConnectorError, type Page, type ReadRange, type RunLog, type Sync } from '../../contract.ts'
import { type CursorState, readStart, SEEN_LIMIT } from '../../cursor/cursor-state.ts'
import { createTieGroup, type TieGroup } from '../../cursor/tie-group.ts'
import { quoteName, quoteText } from '../shared/names.ts'
import type { Rows } from './copy-out.ts'
import type { Bound } from './older-writers.ts'
import { buildCopy, findColumn, type Projection, projectColumns, type RowForm } from './projection.ts'
import type { Relation, SourceColumn } from './relation.ts'
import { readCursor, stripRows } from './ties.ts'

interface IncrementalPlan {
  projection: Projection
  buildSql(form: RowForm): string
  /** How many hidden fields the rows of that statement end in. */
  hidden: number
  /** Called for one form only. */
  pages(form: RowForm, rows: AsyncIterable<Rows>): AsyncGenerator<Page>
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
  bound: Bound
}

export function findCursor(relation: Relation, { cursor_field }: Sync): SourceColumn {
  if (cursor_field === null)
    throw new ConnectorError('config', 'An incremental sync needs config.sync.cursor_field, the column to resume by')
  return findColumn(relation, cursor_field, 'sync.cursor_field')
}

/** Text has an order too, but rarely the one in which rows arrive. */
export function isText({ ownType }: SourceColumn): boolean {
  return /^(text|character|citext|name$)/.test(ownType)
}

export function planIncremental(input: PlanInput): IncrementalPlan {
  const { relation, sync, columns, range, log } = input
  const cursor = findCursor(relation, sync)
  if (sync.lookback_seconds > 0) checkLookback(sync, cursor.ownType)
  const projection = projectColumns(relation, columns)
  const { start, resumed } = readStart(input)
  const identity = chooseIdentity(relation, sync, start, log)
  const lookback = resumed === null && !range && start?.cursor != null && sync.lookback_seconds > 0
  // Rows merged by key may be read again; missing one would be worse.
  const rereadTies = resumed === null && sync.write === 'upsert'
  const from = lookback
    ? `${ref(cursor.name)} >= ${literal(cursor, start.cursor!)} - interval '${sync.lookback_seconds} seconds'`
    : buildStart(relation, cursor, identity, start, { resuming: resumed !== null, ignoreAfter: rereadTies })
  const readsMissing = start === null || (start.cursor === null && resumed !== null)
  const end = range
    ? `${ref(cursor.name)} < ${literal(cursor, String(range.to))}`
    : buildEnd(cursor, input.bound, readsMissing)
  const conditions = [from, end].filter((condition) => condition !== null)
  const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`
  const order = [`${ref(cursor.name)} NULLS FIRST`, ...identity.order].join(', ')
  // As a JSON string the value never holds a raw newline or delimiter.
  const hidden = [`to_json(${ref(cursor.name)}::text)::text`, identity.sql]
  const ties = {
    identity: identity.names,
    boundary: start?.cursor ?? null,
    known: lookback || !identity.comparable ? [] : (start?.seen ?? []),
    inside: start?.after !== undefined && identity.comparable && !rereadTies && !lookback,
    missing: start === null ? 0 : (start.missing ?? null),
  }
  return {
    projection,
    hidden: hidden.length,
    buildSql: (form) => buildCopy({ form, relation, projection, hidden, tail: `${where} ORDER BY ${order}` }),
    pages(form, rows) {
      const group = createTieGroup({ ...ties, readCursor: (text) => readCursor(text, form) })
      return cutPages(rows, form, group, (end) => reportEnd(end, cursor.name, log))
    },
  }
}

function checkLookback(sync: Sync, type: string): void {
  if (sync.write !== 'upsert') {
    throw new ConnectorError(
      'config',
      'config.sync.lookback_seconds reads rows again, so it needs config.sync.write upsert; append would double them',
    )
  }
  if (!/^(timestamp|date)/.test(type)) {
    throw new ConnectorError(
      'config',
      `config.sync.lookback_seconds needs a cursor that is a time; ${sync.cursor_field} is ${type}`,
    )
  }
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
  const comparable = kept?.every((name) => columns.includes(name)) ?? false
  if (kept && !comparable)
    log.warn(
      'Columns that distinguished rows with the last cursor value are gone: rows with that value are read again.',
    )
  const names = comparable ? kept! : fresh
  const isKey =
    sync.write === 'append' && declared.length === names.length && declared.every((name) => names.includes(name))
  const list = `json_build_array(${names.map((name) => `${ref(name)}::text`).join(', ')})::text`
  const sql = isKey ? list : `md5(${list}) COLLATE "C"`
  return { names, isKey, sql, order: isKey ? names.map(ref) : [sql], comparable }
}

function ref(name: string): string {
  return `t.${quoteName(name)}`
}

function literal(column: SourceColumn, value: string): string {
  return `${quoteText(value)}::${column.ownType}`
}

/** The other end of the read. */
function buildEnd(cursor: SourceColumn, bound: Bound, readsMissing: boolean): string | null {
  if (bound === undefined) return null
  const column = ref(cursor.name)
  if (bound === null) return readsMissing ? `${column} IS NULL` : 'false'
  const below = `${column} <= ${literal(cursor, bound)}`
  return readsMissing ? `(${column} IS NULL OR ${below})` : below
}

function buildStart(
  relation: Relation,
  cursor: SourceColumn,
  identity: Identity,
  start: CursorState | null,
  options: { resuming: boolean; ignoreAfter: boolean },
): string | null {
  if (start === null) return null
  const column = ref(cursor.name)
  const after =
    start.after !== undefined && identity.comparable && !options.ignoreAfter
      ? readAfter(relation, identity, start.after)
      : null
  const place = identity.order.join(', ')
  if (start.cursor === null) {
    if (!options.resuming) return `${column} IS NOT NULL`
    return after === null ? null : `(${column} IS NOT NULL OR ROW(${place}) >= ROW(${after}))`
  }
  const value = literal(cursor, start.cursor)
  return after === null ? `${column} >= ${value}` : `ROW(${column}, ${place}) >= ROW(${value}, ${after})`
}

function readAfter(relation: Relation, identity: Identity, after: string): string {
  if (!identity.isKey) return quoteText(after)
  const values = JSON.parse(after) as string[]
  return identity.names
    .map((name, index) => literal(findColumn(relation, name, 'sync.primary_key'), values[index] ?? ''))
    .join(', ')
}

async function* cutPages(
  rows: AsyncIterable<Rows>,
  form: RowForm,
  group: TieGroup,
  atEnd: (group: TieGroup) => void,
): AsyncGenerator<Page> {
  for await (const { bytes, release } of rows) {
    const { used, records } = stripRows(bytes, form, group)
    if (records > 0) yield { bytes: bytes.subarray(0, used), records, cursor: group.state(), release }
  }
  atEnd(group)
}

function reportEnd(group: TieGroup, field: string, log: RunLog): void {
  if (group.missing > 0) {
    log.info(
      `${group.missing} rows have no value in ${field}. They were read now, in the first run, and will not be read again.`,
    )
  }
  if (group.overflown) {
    log.warn(
      `More than ${SEEN_LIMIT} rows share the last value of ${field} (fewer where their keys are long): some rows that arrive later with that same value may not be read. Use a cursor with finer values to avoid this.`,
    )
  }
}
