/**
 * The values of a query's result as JSON text, in the notation of the contract: numbers keep all of their digits, so
 * they never pass through a double, and times are written as outputs write them.
 */
import {
  DuckDBArrayType,
  type DuckDBBlobValue,
  DuckDBDecimalType,
  DuckDBListType,
  DuckDBMapType,
  type DuckDBMapValue,
  DuckDBStructType,
  type DuckDBStructValue,
  type DuckDBType,
  DuckDBTypeId,
  DuckDBUnionType,
  type DuckDBUnionValue,
  type DuckDBValue,
} from '@duckdb/node-api'
import type { ColumnType } from '../../connectors/types/column-types.ts'
import { validateJson } from '../../json/validator.ts'

type Write = (value: NonNullable<DuckDBValue>) => string

interface Kind {
  type: ColumnType
  write: Write
}

const writeText: Write = (value) => JSON.stringify(String(value))
const writeNumber: Write = (value) => String(value)
/** JSON has no NaN and no infinities, so they are strings. */
const writeDouble: Write = (value) => (Number.isFinite(value) ? String(value) : JSON.stringify(String(value)))
const writeFloat: Write = (value) => (Number.isFinite(value) ? shortestFloat(value as number) : writeText(value))
const writeTime: Write = (value) =>
  JSON.stringify(
    String(value)
      .replace(/^(\S+) (?=\d)/, '$1T')
      .replace(/\+00$/, '+00:00'),
  )

const kinds: Partial<Record<DuckDBTypeId, Kind>> = {
  [DuckDBTypeId.BOOLEAN]: { type: 'boolean', write: writeNumber },
  [DuckDBTypeId.TINYINT]: { type: 'int16', write: writeNumber },
  [DuckDBTypeId.UTINYINT]: { type: 'int16', write: writeNumber },
  [DuckDBTypeId.SMALLINT]: { type: 'int16', write: writeNumber },
  [DuckDBTypeId.USMALLINT]: { type: 'int32', write: writeNumber },
  [DuckDBTypeId.INTEGER]: { type: 'int32', write: writeNumber },
  [DuckDBTypeId.UINTEGER]: { type: 'int64', write: writeNumber },
  [DuckDBTypeId.BIGINT]: { type: 'int64', write: writeNumber },
  [DuckDBTypeId.UBIGINT]: { type: 'decimal(20,0)', write: writeNumber },
  [DuckDBTypeId.HUGEINT]: { type: 'decimal', write: writeNumber },
  [DuckDBTypeId.UHUGEINT]: { type: 'decimal', write: writeNumber },
  [DuckDBTypeId.BIGNUM]: { type: 'decimal', write: writeNumber },
  [DuckDBTypeId.FLOAT]: { type: 'float32', write: writeFloat },
  [DuckDBTypeId.DOUBLE]: { type: 'float64', write: writeDouble },
  [DuckDBTypeId.DATE]: { type: 'date', write: writeText },
  [DuckDBTypeId.TIME]: { type: 'time', write: writeText },
  [DuckDBTypeId.TIMESTAMP]: { type: 'timestamp', write: writeTime },
  [DuckDBTypeId.TIMESTAMP_S]: { type: 'timestamp', write: writeTime },
  [DuckDBTypeId.TIMESTAMP_MS]: { type: 'timestamp', write: writeTime },
  [DuckDBTypeId.TIMESTAMP_TZ]: { type: 'timestamptz', write: writeTime },
  [DuckDBTypeId.INTERVAL]: { type: 'interval', write: writeText },
  [DuckDBTypeId.UUID]: { type: 'uuid', write: writeText },
  [DuckDBTypeId.BLOB]: { type: 'bytes', write: writeBytes },
}

/** The type of a column in the contract's words, and what writes its values. */
export function kindOf(type: DuckDBType): Kind {
  if (type instanceof DuckDBDecimalType) return { type: `decimal(${type.width},${type.scale})`, write: writeNumber }
  if (type instanceof DuckDBListType || type instanceof DuckDBArrayType) return listKind(type)
  if (type instanceof DuckDBStructType) return { type: 'json', write: structWriter(type) }
  if (type instanceof DuckDBMapType) return { type: 'json', write: mapWriter(type) }
  if (type instanceof DuckDBUnionType) return { type: 'json', write: unionWriter(type) }
  if (type.alias === 'JSON') return { type: 'json', write: writeJson }
  return kinds[type.typeId] ?? { type: 'text', write: writeText }
}

export function writeValue(write: Write, value: DuckDBValue): string {
  return value === null ? 'null' : write(value)
}

function listKind({ valueType }: DuckDBListType | DuckDBArrayType): Kind {
  const { type, write } = kindOf(valueType)
  const scalar = type !== 'json' && !type.endsWith('[]')
  return {
    type: scalar ? (`${type}[]` as ColumnType) : 'json',
    write: (list) => `[${(list as { items: readonly DuckDBValue[] }).items.map((item) => writeValue(write, item))}]`,
  }
}

function structWriter({ entryNames, entryTypes }: DuckDBStructType): Write {
  const writers = entryTypes.map((type) => kindOf(type).write)
  return (value) => {
    const { entries } = value as DuckDBStructValue
    return `{${entryNames.map((name, at) => `${JSON.stringify(name)}:${writeValue(writers[at]!, entries[name] ?? null)}`)}}`
  }
}

function mapWriter({ keyType, valueType }: DuckDBMapType): Write {
  const [key, item] = [kindOf(keyType).write, kindOf(valueType).write]
  const name = (text: string) => (text.startsWith('"') ? text : JSON.stringify(text))
  return (value) =>
    `{${(value as DuckDBMapValue).entries.map((entry) => `${name(writeValue(key, entry.key))}:${writeValue(item, entry.value)}`)}}`
}

function unionWriter(type: DuckDBUnionType): Write {
  return (value) => {
    const { tag, value: inner } = value as DuckDBUnionValue
    return writeValue(kindOf(type.memberTypes[type.memberTags.indexOf(tag)]!).write, inner)
  }
}

function writeBytes(value: NonNullable<DuckDBValue>): string {
  return JSON.stringify(`\\x${Buffer.from((value as DuckDBBlobValue).bytes).toString('hex')}`)
}

/** DuckDB takes more for JSON than there is: NaN, and values that nest without end. Those are shown as text. */
const DEEPEST = 200

function writeJson(value: NonNullable<DuckDBValue>): string {
  const text = String(value)
  try {
    validateJson(Buffer.from(text), DEEPEST)
    return text
  } catch {
    return JSON.stringify(text)
  }
}

/** The shortest digits that give the same 32-bit number. */
function shortestFloat(value: number): string {
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits))
    if (Math.fround(short) === value) return String(short)
  }
  return String(value)
}
