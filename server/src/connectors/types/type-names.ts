/**
 * Type names that may stand in a statement. What a column is called by the system that holds it becomes part of the SQL
 * that makes a table elsewhere, so a system that lies about it must not get to write that SQL.
 */
import { type Column, ConnectorError } from '../contract.ts'

const names =
  `bool boolean int2 int4 int8 smallint integer bigint numeric decimal float4 float8 real double\\sprecision text
  varchar bpchar char character character\\svarying bytea date time timetz timestamp timestamptz uuid json jsonb xml inet cidr
  macaddr macaddr8 bit bit\\svarying varbit point line lseg box path polygon circle tsvector tsquery jsonpath
  interval(?:\\s(?:year|month|day|hour|minute|second))?(?:\\sto\\s(?:month|hour|minute|second))?
  (?:int4|int8|num|date|ts|tstz)(?:multi)?range`
    .trim()
    .split(/\s+/)

const size = '(?:\\(\\d{1,5}(?:, ?-?\\d{1,5})?\\))?'
const typeName = new RegExp(`^(?:${names.join('|')})${size}(?: with(?:out)? time zone)?(?:\\[\\])*$`)

export const isTypeName = (type: string): boolean => typeName.test(type)

/** The columns that a source declares. */
export function requireTypeNames(columns: readonly Column[]): void {
  const wrong = columns.find(({ type }) => !isTypeName(type))
  if (wrong)
    throw new ConnectorError(
      'source',
      `The source gives the column ${JSON.stringify(wrong.name.slice(0, 100))} a type that PostgreSQL does not have: ${JSON.stringify(wrong.type.slice(0, 100))}`,
    )
}

/** Columns kept from an earlier run, which may have gone to another database: what only that one knew is text here. */
export const withKnownTypes = (columns: readonly Column[]): Column[] =>
  columns.map(({ name, type }) => ({ name, type: isTypeName(type) ? type : 'text' }))
