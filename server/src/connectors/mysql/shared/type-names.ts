/**
 * MySQL's type names: their parts, their neutral types, and which of them may appear in a statement. A type name from a
 * source becomes part of the SQL that creates a table elsewhere, so a malicious source must not be able to inject SQL
 * through it.
 */
import { type BaseType, type ColumnType, formatType, isColumnType } from '../../types/column-types.ts'

export const SYSTEM = 'mysql'

export interface MysqlType {
  /** `int`, `varchar`, `datetime`, in lower case. */
  base: string
  /** The numbers in parentheses: lengths, precisions. */
  sizes: number[]
  unsigned: boolean
  zerofill: boolean
}

const aliases: Record<string, string> = {
  integer: 'int',
  'double precision': 'double',
  real: 'double',
  numeric: 'decimal',
  dec: 'decimal',
}

/** Of a column's type as information_schema writes it. */
export function parseMysqlType(text: string): MysqlType {
  const [, name = text, inner = '', rest = ''] =
    /^([a-z0-9 _]+?)\s*(?:\(([^)]*)\))?((?:\s.*)?)$/i.exec(text.trim()) ?? []
  const base = name.toLowerCase()
  const sizes = /^[\d, ]+$/.test(inner) ? inner.split(',').map(Number) : []
  // Labels of an enum may hold parentheses and these very words.
  const listed = /^(enum|set)\b/i.exec(text.trim())?.[1]?.toLowerCase()
  if (listed !== undefined) return { base: listed, sizes: [], unsigned: false, zerofill: false }
  const zerofill = /\bzerofill\b/i.test(rest)
  return { base: aliases[base] ?? base, sizes, unsigned: zerofill || /\bunsigned\b/i.test(rest), zerofill }
}

const integers: Record<string, [BaseType, BaseType]> = {
  tinyint: ['int16', 'int16'],
  smallint: ['int16', 'int32'],
  mediumint: ['int32', 'int32'],
  int: ['int32', 'int64'],
  bigint: ['int64', 'decimal'],
}

const others: Record<string, BaseType> = {
  float: 'float32',
  double: 'float64',
  year: 'int16',
  date: 'date',
  datetime: 'timestamp',
  timestamp: 'timestamptz',
  // It reaches 838 hours, and below zero.
  time: 'interval',
  json: 'json',
  uuid: 'uuid',
}

const binary =
  /^(tiny|medium|long)?blob$|^(var)?binary$|^(geometry|point|linestring|polygon|multi\w+|geomcollection|geometrycollection|vector)$/

/** `isBinary`: a text type whose character set is binary. */
export function neutralType({ base, sizes, unsigned }: MysqlType, isBinary = false): ColumnType {
  const integer = integers[base]
  if (integer !== undefined)
    return base === 'bigint' && unsigned
      ? 'decimal(20,0)'
      : formatType({ base: integer[unsigned ? 1 : 0], list: false })
  if (base === 'decimal') {
    const [precision = 10, scale = 0] = sizes
    return formatType({ base: 'decimal', precision, scale, list: false })
  }
  if (base === 'bit') return (sizes[0] ?? 1) > 63 ? 'decimal(20,0)' : 'int64'
  if (isBinary || binary.test(base)) return 'bytes'
  return others[base] ?? 'text'
}

const sized = '(?:\\(\\d{1,5}(?:, ?\\d{1,3})?\\))?'
const safe = new RegExp(
  `^(?:(?:tiny|small|medium|big)?int(?: unsigned)?|decimal${sized}(?: unsigned)?|float|double|bit${sized}|year|date|datetime${sized}|timestamp${sized}|time${sized}|(?:var)?char\\(\\d{1,5}\\)|(?:tiny|medium|long)?text|(?:var)?binary\\(\\d{1,5}\\)|(?:tiny|medium|long)?blob|json)$`,
)

/** The type as a statement may contain it: without display widths; null if it is only this server's own (enum, geometry). */
export function nativeName({ base, sizes, unsigned }: MysqlType): string | null {
  const shown =
    base in integers || base === 'year'
      ? base === 'tinyint' && sizes[0] === 1
        ? 'tinyint(1)'
        : base
      : `${base}${sizes.length > 0 && base !== 'float' && base !== 'double' ? `(${sizes.join(',')})` : ''}`
  const name = `${shown}${unsigned ? ' unsigned' : ''}`
  return isSafeType(name) ? name : null
}

function isSafeType(name: string): boolean {
  return name === 'tinyint(1)' || safe.test(name)
}

/** Neutral types that MySQL has no type of its own for are named in the comment of the column that holds them. */
const MARK = 'sluice:'

export function typeComment(type: ColumnType): string {
  return `${MARK}${type}`
}

/** Null if the comment is not ours. */
export function commentedType(comment: string): ColumnType | null {
  if (!comment.startsWith(MARK)) return null
  const type = comment.slice(MARK.length)
  return isColumnType(type) ? type : null
}
