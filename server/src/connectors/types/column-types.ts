/**
 * Column types that are neutral between systems. A source declares its columns with them, and a destination maps them to the
 * types of its system. A type that only one system has (inet, int4range) is `text` here, and its native name travels with the
 * column as its native type.
 *
 *   boolean                     int16 int32 int64           float32 float64
 *   decimal, decimal(p,s)       without p and s: any number of digits
 *   text  bytes  uuid  json     bytes of any length; json is any JSON value
 *   date  time  timestamp       microseconds, no zone        timestamptz   an instant
 *   interval                    months, days and microseconds, kept separately
 *   T[]                         a list of any of these
 *
 * The text format of their values is part of the contract (contract.ts).
 */
const baseTypes = [
  'boolean',
  'int16',
  'int32',
  'int64',
  'float32',
  'float64',
  'decimal',
  'text',
  'bytes',
  'date',
  'time',
  'timestamp',
  'timestamptz',
  'interval',
  'uuid',
  'json',
] as const

export type BaseType = (typeof baseTypes)[number]
type ScalarType = BaseType | `decimal(${number},${number})`
export type ColumnType = ScalarType | `${ScalarType}[]`

/** A column type, parsed. */
export interface TypeParts {
  base: BaseType
  /** Only for a decimal with limits. */
  precision?: number
  scale?: number
  list: boolean
}

const FORM = /^([a-z]+\d*)(?:\((\d{1,5}),(\d{1,5})\))?(\[\])?$/

/** Null if the text is not a type. */
export function parseType(text: string): TypeParts | null {
  const [, name, precision, scale, list] = FORM.exec(text) ?? []
  const base = baseTypes.find((candidate) => candidate === name)
  if (base === undefined) return null
  if (precision === undefined || scale === undefined) return { base, list: list !== undefined }
  if (base !== 'decimal' || Number(precision) < 1 || Number(scale) > Number(precision)) return null
  return { base, precision: Number(precision), scale: Number(scale), list: list !== undefined }
}

export function isColumnType(text: string): text is ColumnType {
  return parseType(text) !== null
}

export function formatType({ base, precision, scale, list }: TypeParts): ColumnType {
  const scalar: ScalarType =
    base === 'decimal' && precision !== undefined && scale !== undefined ? `decimal(${precision},${scale})` : base
  return list ? `${scalar}[]` : scalar
}

/** Like `parseType`, for a type that is known to be valid. */
export function partsOf(type: ColumnType): TypeParts {
  const parts = parseType(type)
  if (parts === null) throw new Error(`${JSON.stringify(type)} is not a column type`)
  return parts
}
