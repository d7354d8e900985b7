/**
 * Columns of a table in MySQL: which type holds the values of a neutral type without loss, and what a column needs before
 * others fit. Neutral types that MySQL has no type for are named in the column's comment (`sluice:uuid`), so that a later
 * run and the source know them again.
 *
 *   boolean      TINYINT(1)          decimal       DECIMAL(65,30); what does not fit becomes text
 *   timestamptz  DATETIME(6) in UTC, because TIMESTAMP ends in 2038 and begins in 1970
 *   json, lists  LONGTEXT with the JSON as it is: MySQL's JSON rounds long numbers
 *   interval     LONGTEXT            uuid          CHAR(36)
 */
import { type Column, ConnectorError } from '../../contract.ts'
import { type ColumnType, isColumnType, partsOf } from '../../types/column-types.ts'
import { Kind, type Kinds, widenType } from '../../types/kinds.ts'
import { commonType } from '../../types/widening.ts'
import { quoteName, quoteText } from '../shared/names.ts'
import { commentedType, neutralType, parseMysqlType, SYSTEM, typeComment } from '../shared/type-names.ts'

export interface TableColumn {
  name: string
  /** What its values are, as far as records are concerned. */
  neutral: ColumnType
  /** As SQL writes it. */
  sql: string
}

const ANY_DECIMAL: ColumnType = 'decimal(65,30)'
const MAX_DIGITS = 65
const MAX_SCALE = 30
const MAX_FRACTION = 6

/** The neutral type that a column of MySQL can have for values of this one. */
function storable(type: ColumnType): ColumnType {
  const { base, precision, scale = 0, list } = partsOf(type)
  if (list) return 'json'
  if (base !== 'decimal') return type
  if (precision === undefined) return ANY_DECIMAL
  return precision <= MAX_DIGITS && scale <= MAX_SCALE ? type : 'text'
}

const plain: Record<string, string> = {
  boolean: 'tinyint(1)',
  int16: 'smallint',
  int32: 'int',
  int64: 'bigint',
  float32: 'float',
  float64: 'double',
  text: 'longtext',
  bytes: 'longblob',
  date: 'date',
  time: 'time(6)',
  timestamp: 'datetime(6)',
  timestamptz: 'datetime(6)',
  interval: 'longtext',
  uuid: 'char(36)',
  json: 'longtext',
}

/** Types that the comment has to name. */
const commented = new Set<string>(['boolean', 'time', 'timestamptz', 'interval', 'uuid', 'json'])

export function makeColumn(name: string, type: ColumnType): TableColumn {
  const neutral = storable(type)
  return { name, neutral, sql: plain[neutral] ?? neutral }
}

/** Native types whose text form MySQL reads back as the same value, and which need no size that we do not know. */
const kept =
  /^(?:(?:tiny|small|medium|big)?int(?: unsigned)?|decimal\(\d+,\d+\)(?: unsigned)?|float|double|date|(?:datetime|timestamp|time)(?:\([0-6]\))?|varchar\((?:[1-9]\d{0,2})\)|varbinary\((?:[1-9]\d{0,2})\))$/

/** The column for one that a source declares: with the native type if the source is MySQL too. */
export function declaredColumn({ type, native }: Column, name: string): TableColumn {
  if (!isColumnType(type))
    throw new ConnectorError(
      'source',
      `The source gives the column ${JSON.stringify(name.slice(0, 100))} a type that does not exist: ${JSON.stringify(String(type).slice(0, 100))}`,
    )
  const column = makeColumn(name, type)
  if (native?.system !== SYSTEM || !kept.test(native.type)) return column
  const same = neutralType(parseMysqlType(native.type)) === column.neutral
  return same ? { ...column, sql: native.type } : column
}

/** A column of an existing table. */
export function existingColumn(
  name: string,
  type: string,
  facts: { isBinary: boolean; isJson: boolean; comment: string },
): TableColumn {
  const own = parseMysqlType(type)
  const meant = commentedType(facts.comment)
  const neutral = neutralType(own, facts.isBinary)
  const known =
    meant !== null && (plain[meant] === type || (meant === 'json' && own.base === 'longtext')) ? meant : null
  return { name, neutral: facts.isJson ? 'json' : (known ?? neutral), sql: type }
}

/** How many fractional digits of a second a column keeps; MySQL rounds the others without a word. */
export function fractionOf({ sql }: TableColumn): number {
  const { base, sizes } = parseMysqlType(sql)
  return base === 'datetime' || base === 'timestamp' || base === 'time' ? (sizes[0] ?? 0) : MAX_FRACTION
}

const isText = (type: ColumnType): boolean => type === 'text' || type === 'interval'

/** What a column must become before values of another fit; null if it holds them. */
export function widenFor(have: TableColumn, wanted: TableColumn): TableColumn | null {
  if (isText(have.neutral)) return null
  if (have.neutral === wanted.neutral)
    return fractionOf(wanted) > fractionOf(have) ? withFraction(have) : widenSize(have, wanted)
  // BOOLEAN is an integer in MySQL.
  if (wanted.neutral === 'boolean' && /^(int|decimal)/.test(have.neutral)) return null
  if ((have.neutral === 'interval' || parseMysqlType(have.sql).base === 'time') && wanted.neutral === 'time')
    return null
  if (have.neutral === 'json') return wanted.neutral === 'text' ? null : makeColumn(have.name, 'text')
  // A text with a uuid in it still fits; the first that is none is refused by its length.
  const common = commonType(have.neutral, wanted.neutral)
  if (common === have.neutral) return null
  return common === wanted.neutral ? { ...wanted, name: have.name } : makeColumn(have.name, common)
}

function withFraction(column: TableColumn): TableColumn {
  return { ...column, sql: `${parseMysqlType(column.sql).base}(${MAX_FRACTION})` }
}

/** `tinyint` and `smallint` are both int16, `int` may be unsigned: only one of them holds the other's values. */
function widenSize(have: TableColumn, wanted: TableColumn): TableColumn | null {
  const [mine, other] = [parseMysqlType(have.sql), parseMysqlType(wanted.sql)]
  if (mine.base === 'tinyint' && other.base === 'smallint' && mine.sizes[0] !== 1) return { ...wanted, name: have.name }
  return null
}

/** What a column needs to hold values of these kinds, none of which fit so far. */
export function widenForKinds(have: TableColumn, kinds: Kinds): TableColumn | null {
  // BOOLEAN is TINYINT(1): a table made by somebody else says no more than that.
  if (kinds === Kind.boolean && have.sql === 'tinyint(1)' && have.neutral === 'int16')
    return { ...have, neutral: 'boolean' }
  if (fractionOf(have) < MAX_FRACTION && (kinds & ~(Kind.timestamp | Kind.timestamptz | Kind.date | Kind.text)) === 0) {
    const own =
      have.neutral === 'timestamptz'
        ? Kind.timestamptz
        : have.neutral === 'timestamp'
          ? Kind.timestamp | Kind.date
          : Kind.text
    if ((kinds & ~own) === 0) return withFraction(have)
  }
  const wider = widenType(have.neutral, kinds)
  if (wider === null) return null
  const column = makeColumn(have.name, wider)
  return column.neutral === have.neutral ? makeColumn(have.name, 'text') : column
}

export const sameColumn = (one: TableColumn, other: TableColumn): boolean =>
  one.neutral === other.neutral && one.sql === other.sql

/** Whether `to` can only be `from` after a widening, and not the other way round: others may have widened it further. */
export function isWidening(from: TableColumn, to: TableColumn): boolean {
  if (isText(from.neutral) || sameColumn(from, to)) return false
  if (to.neutral === 'text') return true
  if (to.neutral === 'json') return from.neutral !== 'json'
  const wider = widenFor(from, to)
  return wider !== null && sameColumn(wider, to)
}

/** The most bytes that the columns of an index may have together, at four for each character. */
const KEY_BYTES = 3072
const MAX_KEY_LENGTH = 255

/** The same columns, with sizes that an index can have. */
export function asKeys(columns: readonly TableColumn[], key: readonly string[]): TableColumn[] {
  const wide = columns.filter(({ name, sql }) => key.includes(name) && /^long/.test(sql)).length
  const length = Math.min(MAX_KEY_LENGTH, Math.floor(KEY_BYTES / 4 / Math.max(wide, 1)) - 20)
  return columns.map((column) => {
    if (!key.includes(column.name) || !/^long/.test(column.sql)) return column
    if (column.neutral === 'json')
      throw new ConnectorError(
        'config',
        `config.sync.primary_key names ${column.name}, which holds nested values; choose another key`,
      )
    return { ...column, sql: column.sql === 'longblob' ? `varbinary(${length})` : `varchar(${length})` }
  })
}

/** A column in CREATE TABLE or ALTER TABLE. */
export function columnSql({ name, neutral, sql }: TableColumn, note?: string): string {
  const comment =
    note ??
    (commented.has(neutral) && (plain[neutral] === sql || sql.startsWith('varchar')) ? typeComment(neutral) : '')
  // A TIMESTAMP is NOT NULL otherwise, and set by the server.
  return `${quoteName(name)} ${sql} NULL${comment === '' ? '' : ` COMMENT ${quoteText(comment)}`}`
}

export const byName = (columns: readonly TableColumn[]): Map<string, TableColumn> =>
  new Map(columns.map((column) => [column.name, column]))

/** As the contract describes columns. */
export const describeColumn = ({ name, neutral, sql }: TableColumn): Column => ({
  name,
  type: neutral,
  native: { system: SYSTEM, type: sql },
})

/** A column stored from an earlier run, which may have loaded another system. */
export const keptColumn = ({ name, type }: Column): TableColumn => makeColumn(name, type)
