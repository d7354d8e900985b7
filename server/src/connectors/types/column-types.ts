/**
 * Types of columns that belong to no system. A source says with them what it gives, a destination makes of them what its
 * system calls so. What only one system knows (inet, int4range) is `text` here, and its own name travels beside it as the
 * column's native type.
 *
 *   boolean                     int16 int32 int64           float32 float64
 *   decimal, decimal(p,s)       without p and s: any number of digits
 *   text  bytes  uuid  json     bytes of any length; json is any JSON value
 *   date  time  timestamp       microseconds, no zone        timestamptz   an instant
 *   interval                    months, days and microseconds, each on its own
 *   T[]                         a list of any of these
 *
 * The text form of their values is part of the contract (contract.ts).
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

/** A type in its parts. */
export interface TypeParts {
  base: BaseType
  /** Of a decimal that has them. */
  precision?: number
  scale?: number
  list: boolean
}

const FORM = /^([a-z]+\d*)(?:\((\d{1,5}),(\d{1,5})\))?(\[\])?$/

/** Null where the text does not name a type. */
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

/** The parts of a type that is known to be one. */
export function partsOf(type: ColumnType): TypeParts {
  const parts = parseType(type)
  if (parts === null) throw new Error(`${JSON.stringify(type)} is not a column type`)
  return parts
}
