/** Columns from a JSON schema, for forms and column pickers. What a schema promises is no proof: records are read as they are. */
import type { Json } from '../../../json/json.ts'
import type { Column } from '../../contract.ts'
import type { ColumnType } from '../../types/column-types.ts'
import { type Dict, isDict } from '../component.ts'

const MOST_COLUMNS = 5000

export function columnsOf(schema: Json | null): Column[] | null {
  if (!isDict(schema) || !isDict(schema.properties)) return null
  const entries = Object.entries(schema.properties).slice(0, MOST_COLUMNS)
  return entries.map(([name, property]) => ({ name, ...typeOf(isDict(property) ? property : {}) }))
}

function typeOf(property: Dict): Pick<Column, 'type' | 'nullable'> {
  const types = (Array.isArray(property.type) ? property.type : [property.type]).filter(
    (type) => typeof type === 'string',
  )
  const named = types.filter((type) => type !== 'null')
  const nullable = types.length === 0 || types.includes('null')
  return { type: named.length === 1 ? columnType(named[0] as string, property) : 'json', nullable }
}

function columnType(type: string, { format, airbyte_type: airbyteType }: Dict): ColumnType {
  if (type === 'boolean') return 'boolean'
  if (type === 'integer') return 'int64'
  if (type === 'number') return airbyteType === 'integer' ? 'int64' : 'float64'
  if (type !== 'string') return 'json'
  if (format === 'date') return 'date'
  if (format === 'date-time') return airbyteType === 'timestamp_without_timezone' ? 'timestamp' : 'timestamptz'
  return 'text'
}
