/** The columns of a stream: how each is selected, compared and written. */
import { type Column, ConnectorError } from '../../contract.ts'
import type { ColumnType } from '../../types/column-types.ts'
import { quoteName, quoteText } from '../shared/names.ts'
import { commentedType, type MysqlType, nativeName, neutralType, parseMysqlType, SYSTEM } from '../shared/type-names.ts'

/** How the text that the server sends becomes a field. */
export type FieldForm =
  | 'number'
  | 'float32'
  | 'boolean'
  | 'text'
  | 'bytes'
  | 'date'
  | 'timestamp'
  | 'timestamptz'
  | 'json'

export interface SourceColumn {
  name: string
  type: ColumnType
  /** Its type as another MySQL may be told; null if only this one has it. */
  native: string | null
  /** Null if unknown: in views and queries. */
  nullable: boolean | null
  form: FieldForm
  own: MysqlType
}

/** What to do with dates that do not exist. */
export type ZeroDates = 'null' | 'text' | 'fail'

export interface TypeChoices {
  zeroDates: ZeroDates
  tinyint1AsBoolean: boolean
}

interface ColumnFacts {
  name: string
  /** As information_schema writes it. */
  type: string
  isBinary: boolean
  nullable: boolean | null
  /** MariaDB's JSON is a longtext with a check. */
  isJson?: boolean
  comment?: string
}

export function toSourceColumn(facts: ColumnFacts, choices: TypeChoices): SourceColumn {
  const own = parseMysqlType(facts.type)
  const type = chooseType(facts, own, choices)
  const dated = type === 'date' || type === 'timestamp' || type === 'timestamptz'
  return {
    name: facts.name,
    type,
    native: type === 'text' && isDated(own) ? null : facts.isJson ? 'json' : nativeName(own),
    // A date that does not exist is read as null.
    nullable: dated && choices.zeroDates === 'null' && facts.nullable === false ? true : facts.nullable,
    form: formOf(type),
    own,
  }
}

const isDated = ({ base }: MysqlType): boolean => base === 'date' || base === 'datetime' || base === 'timestamp'

function chooseType(facts: ColumnFacts, own: MysqlType, choices: TypeChoices): ColumnType {
  if (facts.isJson) return 'json'
  const plain = neutralType(own, facts.isBinary)
  if (own.base === 'tinyint' && own.sizes[0] === 1 && choices.tinyint1AsBoolean) return 'boolean'
  if (isDated(own) && choices.zeroDates === 'text') return 'text'
  // What our own destination stored for want of a type of its own.
  const meant = commentedType(facts.comment ?? '')
  if (plain === 'timestamp' && meant === 'timestamptz') return meant
  if (plain === 'text' && (meant === 'uuid' || meant === 'json' || meant === 'interval')) return meant
  return plain
}

function formOf(type: ColumnType): FieldForm {
  switch (type) {
    case 'float32':
    case 'boolean':
    case 'bytes':
    case 'date':
    case 'json':
    case 'timestamp':
    case 'timestamptz':
      return type
    case 'text':
    case 'uuid':
    case 'interval':
      return 'text'
    default:
      return 'number'
  }
}

export function describeColumn(column: SourceColumn, name: string): Column {
  const { type, native, nullable } = column
  return {
    name,
    type,
    ...(nullable === null ? {} : { nullable }),
    ...(native === null ? {} : { native: { system: SYSTEM, type: native } }),
  }
}

function reference({ name }: SourceColumn): string {
  return `t.${quoteName(name)}`
}

/** What is selected, so that the server's text has every digit. */
export function selected(column: SourceColumn): string {
  const { own, form } = column
  const expression = reference(column)
  // A FLOAT is shown with six digits only; as a DOUBLE it has all that it holds.
  if (form === 'float32') return `${expression} + 0e0`
  // Without the zeros in front of it; a BIT is sent as bytes otherwise.
  if (own.zerofill || own.base === 'bit' || own.base === 'year') return `${expression} + 0`
  return expression
}

/** A text that is the same for equal values only. */
export function textOf(column: SourceColumn): string {
  return column.form === 'bytes' ? `HEX(${reference(column)})` : `CAST(${selected(column)} AS CHAR)`
}

/** The same for values of any length: their text could exceed max_allowed_packet, and would be NULL. */
export function fingerprintOf(column: SourceColumn): string {
  const { form } = column
  return form === 'bytes' || form === 'text' || form === 'json' ? `MD5(${reference(column)})` : textOf(column)
}

export function hashOf(column: SourceColumn): string {
  return `SHA2(${column.form === 'bytes' ? reference(column) : textOf(column)}, 256)`
}

const isPlainText = ({ form, own }: SourceColumn): boolean => form === 'text' && own.base !== 'time' && !isDated(own)

/** What rows are ordered and compared by: texts by their bytes, because a collation takes different texts for equal. */
export function comparable(column: SourceColumn): string {
  if (column.form === 'json')
    throw new ConnectorError(
      'config',
      `config.sync.cursor_field names ${column.name}, which is JSON and has no order; choose another column`,
    )
  if (isPlainText(column)) return `CAST(CONVERT(${reference(column)} USING utf8mb4) AS BINARY)`
  return column.form === 'float32' ? selected(column) : reference(column)
}

const NUMBER = /^-?\d{1,100}(\.\d{1,100})?(e[+-]?\d{1,4})?$/i
const DAY = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?))?(?: ?Z|\+00(?::?00)?)?$/
const CLOCK = /^-?\d{1,3}:\d\d(:\d\d(\.\d{1,6})?)?$/

/** A value as SQL, to compare with `comparable`. */
export function literal(column: SourceColumn, value: string): string {
  const { form, own } = column
  const wrong = (what: string): ConnectorError =>
    new ConnectorError(
      'config',
      `The state or the range holds ${JSON.stringify(value.slice(0, 100))} for ${column.name}, which is not ${what}; set or reset it`,
    )
  if (isDated(own)) {
    const [, day, clock] = DAY.exec(value) ?? []
    if (day === undefined) throw wrong('a date or time')
    return own.base === 'date' ? `CAST('${day}' AS DATE)` : `CAST('${day} ${clock ?? '00:00:00'}' AS DATETIME(6))`
  }
  if (own.base === 'time') {
    if (!CLOCK.test(value)) throw wrong('a time')
    return `CAST('${value}' AS TIME(6))`
  }
  if (form === 'bytes') {
    if (!/^([0-9a-f]{2})*$/i.test(value)) throw wrong('hex digits')
    return `X'${value}'`
  }
  if (form === 'text') return `CAST(${quoteText(value)} AS BINARY)`
  if (!NUMBER.test(value)) throw wrong('a number')
  return value
}
