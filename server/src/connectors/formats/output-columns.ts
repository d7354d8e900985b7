/**
 * The columns of a CSV or Parquet file. If the source declares its columns, the file has those, even without records.
 * Otherwise they are inferred from the whole output. A declared type that cannot hold one of the values (a decimal with
 * more digits than Parquet allows, an infinite date) becomes text in that file, and the log says so: a value is never
 * rounded, truncated or dropped.
 */
import type { Column } from '../contract.ts'
import { type ColumnFacts, noFacts } from '../types/column-facts.ts'
import { type ColumnType, partsOf, type TypeParts } from '../types/column-types.ts'
import { inferType, Kind, type Kinds } from '../types/kinds.ts'

export interface OutputColumn {
  name: string
  type: ColumnType
  /** The type in Parquet, by DuckDB's name for it. */
  duckdb: string
}

interface OutputColumns {
  columns: OutputColumn[]
  /** Columns that are text although the source declared another type. */
  texts: Column[]
}

/**
 * `kept` are the columns of the pipeline's last file, for a file without records from a source that declares nothing.
 */
export function chooseOutputColumns(
  declared: readonly Column[] | null,
  found: readonly ColumnFacts[],
  kept: readonly Column[] | null,
): OutputColumns {
  const known = declared ?? (found.length === 0 ? (kept ?? []) : [])
  const facts = new Map(found.map((column) => [column.name, column]))
  const texts: Column[] = []
  const columns = known.map((column): OutputColumn => {
    const duckdb = declaredType(partsOf(column.type), facts.get(column.name) ?? noFacts(column.name))
    if (duckdb === null) texts.push(column)
    return { name: column.name, type: duckdb === null ? 'text' : column.type, duckdb: duckdb ?? 'VARCHAR' }
  })
  const names = new Set(known.map(({ name }) => name))
  return { columns: [...columns, ...found.filter(({ name }) => !names.has(name)).map(inferColumn)], texts }
}

/** DuckDB's maximum. */
const MAX_DIGITS = 38
/** For a decimal without limits: 20 digits before and 18 after the point hold nearly all values. */
const UNLIMITED = { precision: MAX_DIGITS, scale: 18 }

const plain: Partial<Record<TypeParts['base'], { duckdb: string; takes: Kinds }>> = {
  boolean: { duckdb: 'BOOLEAN', takes: Kind.boolean },
  int16: { duckdb: 'SMALLINT', takes: Kind.integer },
  int32: { duckdb: 'INTEGER', takes: Kind.integer },
  int64: { duckdb: 'BIGINT', takes: Kind.integer },
  // NaN and the infinities are strings in JSON.
  float32: { duckdb: 'FLOAT', takes: Kind.integer | Kind.number | Kind.text },
  float64: { duckdb: 'DOUBLE', takes: Kind.integer | Kind.number | Kind.text },
  date: { duckdb: 'DATE', takes: Kind.date },
  time: { duckdb: 'TIME', takes: Kind.text },
  timestamp: { duckdb: 'TIMESTAMP', takes: Kind.timestamp | Kind.date },
  timestamptz: { duckdb: 'TIMESTAMPTZ', takes: Kind.timestamptz },
  uuid: { duckdb: 'UUID', takes: Kind.text },
  bytes: { duckdb: 'BLOB', takes: Kind.text },
}

/** Null if the type cannot hold the values that were found. */
function declaredType({ base, precision, scale, list }: TypeParts, facts: ColumnFacts): string | null {
  // Lists and nested values are JSON text.
  if (list || base === 'json') return 'JSON'
  if (base === 'decimal')
    return decimalType(precision === undefined || scale === undefined ? UNLIMITED : { precision, scale }, facts)
  const type = plain[base]
  // An interval has months; in Parquet's own type it would lose its microseconds.
  if (type === undefined) return 'VARCHAR'
  return (facts.kinds & ~type.takes) === 0 ? type.duckdb : null
}

/** Whether a column of this type can hold the values that were found. */
export function canHold(type: ColumnType, facts: ColumnFacts): boolean {
  return declaredType(partsOf(type), facts) !== null
}

function decimalType({ precision, scale }: { precision: number; scale: number }, facts: ColumnFacts): string | null {
  const isNumber = (facts.kinds & ~(Kind.integer | Kind.number)) === 0
  const fits = precision <= MAX_DIGITS && facts.whole <= precision - scale && facts.scale <= scale
  return isNumber && fits ? `DECIMAL(${precision},${scale})` : null
}

/** Few widths, so that the files of one pipeline mostly have the same. */
const WIDTHS = [18, MAX_DIGITS]

export function inferColumn(facts: ColumnFacts): OutputColumn {
  const { name, whole, scale, double } = facts
  const type = inferType(facts.kinds) ?? 'text'
  if (type !== 'decimal')
    return { name, type, duckdb: type === 'json' ? 'VARCHAR' : (plain[type as 'date']?.duckdb ?? 'VARCHAR') }
  const precision = WIDTHS.find((width) => whole + scale <= width)
  if (precision !== undefined)
    return { name, type: `decimal(${precision},${scale})`, duckdb: `DECIMAL(${precision},${scale})` }
  return double ? { name, type: 'float64', duckdb: 'DOUBLE' } : { name, type: 'text', duckdb: 'VARCHAR' }
}
