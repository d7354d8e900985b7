/** The columns of a stream: how each is selected, compared and named. */
import { type Column, ConnectorError } from '../../contract.ts'
import type { ColumnType } from '../../types/column-types.ts'
import { escapeField } from '../../types/tsv.ts'
import { quoteName } from '../shared/names.ts'
import { type ClickhouseType, meantType, neutralType, parseClickhouseType, SYSTEM } from '../shared/type-names.ts'

export interface SourceColumn {
  name: string
  type: ColumnType
  /** As the server names its type. */
  native: string
  nullable: boolean
  own: ClickhouseType
}

/** Null for a column that has no text: the state of an aggregate function. */
export function toSourceColumn(
  { name, type, comment = '' }: { name: string; type: string; comment?: string },
  binary: readonly string[],
): SourceColumn | null {
  const own = parseClickhouseType(type)
  const neutral = neutralType(own)
  if (neutral === null) return null
  const asBytes = binary.includes(name) && (own.base === 'String' || own.base === 'FixedString')
  return {
    name,
    type: asBytes ? 'bytes' : (meantType(own, comment) ?? neutral),
    native: type,
    nullable: own.nullable,
    own,
  }
}

export function describeColumn({ type, native, nullable }: SourceColumn, name: string): Column {
  return { name, type, nullable, native: { system: SYSTEM, type: native } }
}

function reference({ name }: SourceColumn): string {
  return `t.${quoteName(name)}`
}

const isTime = ({ own }: SourceColumn): boolean => own.base === 'DateTime' || own.base === 'DateTime64'

/** What is selected, so that the server's text is that of the contract. */
export function selected(column: SourceColumn): string {
  const expression = reference(column)
  const { type, own } = column
  if (isTime(column)) {
    const text = `toString(toTimeZone(${expression}, 'UTC'))`
    if (type === 'timestamptz') return `concat(${text}, '+00')`
    return type === 'timestamp' ? text : `concat(replaceOne(${text}, ' ', 'T'), 'Z')`
  }
  switch (type) {
    case 'float32':
    case 'float64':
      return `multiIf(isNaN(${expression}), 'NaN', isInfinite(${expression}), if(${expression} > 0, 'Infinity', '-Infinity'), toString(${expression}))`
    case 'bytes':
      return `concat('\\\\x', lower(hex(${expression})))`
    case 'json':
      return own.base === 'String' ? expression : `toJSONString(${expression})`
    case 'text':
      return own.base === 'String' ? expression : textOf(column)
    default:
      return expression
  }
}

/** A text that is the same for equal values only. */
export function textOf(column: SourceColumn): string {
  const expression = reference(column)
  if (isTime(column)) return `toString(toTimeZone(${expression}, 'UTC'))`
  // A FixedString is padded with zero bytes, which are not part of its value.
  if (column.own.base === 'FixedString') return `replaceRegexpOne(toString(${expression}), '\\\\x00+$', '')`
  return column.type === 'json' && column.own.base !== 'String'
    ? `toJSONString(${expression})`
    : `toString(${expression})`
}

export function hashOf(column: SourceColumn): string {
  return `lower(hex(SHA256(${column.type === 'bytes' ? `toString(${reference(column)})` : textOf(column)})))`
}

/** What rows are ordered and compared by. */
export function comparable(column: SourceColumn): string {
  if (column.type === 'json' || column.type === 'bytes')
    throw new ConnectorError(
      'config',
      `config.sync.cursor_field and primary_key need values that have an order; ${column.name} is ${column.native}. Choose another column`,
    )
  return reference(column)
}

const NUMBER = /^-?(\d{1,100}(\.\d{1,100})?(e[+-]?\d{1,4})?|nan|inf)$/i
const DAY = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?))?(?: ?Z|\+00(?::?00)?)?$/

/** A value as a parameter of the query, to compare with `comparable`: the type it is given as, and its text. */
export function parameter(column: SourceColumn, value: string): { type: string; value: string } {
  const { own, type } = column
  const wrong = (what: string): ConnectorError =>
    new ConnectorError(
      'config',
      `The state or the range holds ${JSON.stringify(value.slice(0, 100))} for ${column.name}, which is not ${what}; set or reset it`,
    )
  if (isTime(column) || type === 'date') {
    const [, day, clock] = DAY.exec(value) ?? []
    if (day === undefined) throw wrong('a date or time')
    if (type === 'date') return { type: own.text, value: day }
    const time = `${day} ${clock === undefined ? '00:00:00' : clock.length === 5 ? `${clock}:00` : clock}`
    if (own.base === 'DateTime') return { type: "DateTime('UTC')", value: time.slice(0, 19) }
    return { type: `DateTime64(${Number(own.args[0])}, 'UTC')`, value: time }
  }
  if (/^(int|decimal|float)/.test(type) && !NUMBER.test(value)) throw wrong('a number')
  return { type: own.text, value: escapeField(value) }
}
