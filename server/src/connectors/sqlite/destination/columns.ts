/**
 * Columns of a table in SQLite. The declared name of a type decides what SQLite does to the values it is given (its
 * affinity), so each name here is one that leaves the values of its type as they are.
 *
 *   boolean      BOOLEAN, 0 or 1           date, time, uuid     DATE, TIME, UUID: text
 *   integers     INTEGER                   timestamp            TIMESTAMP: text, 2024-01-31 12:00:00
 *   floats       REAL                      timestamptz          TIMESTAMPTZ: the same in UTC, followed by +00:00
 *   bytes        BLOB                      json, lists          JSON TEXT
 *   decimal      DECIMAL(p,s), a number, while every value survives as a double (or is an integer); otherwise
 *                DECIMAL TEXT, digit for digit
 */
import type { ColumnDialect, FieldFacts, TableColumn } from '../../database-file/table-plan.ts'
import { type ColumnType, partsOf } from '../../types/column-types.ts'
import { inferType, Kind, type Kinds, traitsOf } from '../../types/kinds.ts'
import { commonType } from '../../types/widening.ts'

const EXACT = 'DECIMAL TEXT'
const numbers = Kind.integer | Kind.number

const names: Partial<Record<string, string>> = {
  boolean: 'BOOLEAN',
  int64: 'INTEGER',
  float64: 'REAL',
  text: 'TEXT',
  bytes: 'BLOB',
  date: 'DATE',
  time: 'TIME',
  timestamp: 'TIMESTAMP',
  timestamptz: 'TIMESTAMPTZ',
  interval: 'INTERVAL TEXT',
  uuid: 'UUID',
  json: 'JSON TEXT',
}

type Typed = Omit<TableColumn, 'name'>

function typed(type: ColumnType, exact = false): Typed {
  const { base, precision, scale, list } = partsOf(type)
  if (list) return typed('json')
  if (base === 'int16' || base === 'int32') return typed('int64')
  if (base === 'float32') return typed('float64')
  if (base !== 'decimal') return { type, sql: names[base]! }
  if (exact) return { type: 'decimal', sql: EXACT }
  return { type, sql: precision === undefined ? 'DECIMAL' : `DECIMAL(${precision},${scale})` }
}

/** Kinds of values that each type takes; those that are not here are text, and take what is declared as them. */
const takes: Partial<Record<string, Kinds>> = {
  boolean: Kind.boolean,
  int64: Kind.integer,
  // NaN and the infinities are strings in JSON.
  float64: numbers | Kind.text,
  decimal: numbers,
  date: Kind.date,
  timestamp: Kind.timestamp | Kind.date,
  timestamptz: Kind.timestamptz,
  time: Kind.text,
  uuid: Kind.text,
  bytes: Kind.text,
}

/** Text of these types is only known to be of them because the source says so. */
const declaredOnly = new Set<string>(['time', 'uuid', 'bytes'])

function holds({ type, sql }: Typed, { declared, facts }: FieldFacts): boolean {
  const { base } = partsOf(type)
  if (base === 'text' || base === 'json' || base === 'interval' || facts.kinds === 0) return true
  if ((facts.kinds & ~(takes[base] ?? 0)) !== 0) return false
  if (base === 'float64') return facts.double && (declared?.startsWith('float') || (facts.kinds & Kind.text) === 0)
  if (base === 'decimal') return sql === EXACT || facts.double || facts.kinds === Kind.integer
  return !declaredOnly.has(base) || declared === base
}

function make(field: FieldFacts): Typed | null {
  const { declared, facts } = field
  if (declared === null) {
    const type = inferType(facts.kinds)
    if (type === null) return null
    return type === 'decimal' && facts.double ? typed('float64') : typed(type, !facts.double)
  }
  const column = typed(declared)
  if (holds(column, field)) return column
  const wider = inferType(traitsOf(column.type).holds | facts.kinds) ?? 'text'
  return typed(wider, !facts.double)
}

const isNumber = (type: ColumnType): boolean => /^(int|float|decimal)/.test(type)

function widen(have: TableColumn, field: FieldFacts): Typed {
  const need = make(field)!
  // DECIMAL keeps integers as they are and others as doubles.
  if (isNumber(have.type) && isNumber(need.type)) return typed('decimal', have.sql === EXACT || !field.facts.double)
  return need.type === 'json' ? need : typed(commonType(have.type, need.type))
}

export const sqliteColumns: ColumnDialect = { make, holds, widen }

/** A column of an earlier run's table, by its declared name; null if no run declares such a one. */
export function readColumn(name: string, declared: string): TableColumn | null {
  if (declared === EXACT) return { name, type: 'decimal', sql: declared }
  const known = Object.entries(names).find(([, sql]) => sql === declared)
  if (known) return { name, type: known[0] as ColumnType, sql: declared }
  const [, precision, scale] = /^DECIMAL(?:\((\d{1,5}),(\d{1,5})\))?$/.exec(declared) ?? [null]
  if (precision === null) return null
  return { name, ...typed(precision === undefined ? 'decimal' : `decimal(${Number(precision)},${Number(scale)})`) }
}
