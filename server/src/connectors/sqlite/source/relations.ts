/** The tables and views of a file. */
import type { DatabaseSync } from 'node:sqlite'
import type { Column } from '../../contract.ts'
import { type Relation, unknownStream } from '../../database-file/relation.ts'
import { iterate, quoteName, type Value } from '../database.ts'
import { chooseType, SAMPLE_ROWS } from './types.ts'

/** Of the unique index that the destination makes for a primary key. */
export const KEY_INDEX = 'sluice_key'

interface Listed {
  name: string
  type: string
  withoutRowid: boolean
}

function listRelations(db: DatabaseSync): Listed[] {
  return [...iterate(db, 'PRAGMA table_list')]
    .map(([schema, name, type, , wr]) => ({ schema, name: String(name), type: String(type), withoutRowid: wr === 1n }))
    .filter(({ schema, name, type }) => schema === 'main' && /^(table|view)$/.test(type) && !name.startsWith('sqlite_'))
    .sort((one, other) => (one.name < other.name ? -1 : 1))
}

export const listStreams = (db: DatabaseSync): string[] => listRelations(db).map(({ name }) => name)

export function describeStream(db: DatabaseSync, stream: string): Relation {
  const relations = listRelations(db)
  const found = relations.find(({ name }) => name === stream)
  if (!found)
    throw unknownStream(
      stream,
      'table or view',
      relations.map(({ name }) => name),
    )
  const declared = [...iterate(db, `PRAGMA table_xinfo(${quoteName(stream)})`)].filter((row) => row[6] !== 1n)
  const names = declared.map((row) => String(row[1]))
  const from = quoteName(stream)
  const sample = [...iterate(db, `SELECT ${names.map(quoteName).join(', ')} FROM ${from} LIMIT ${SAMPLE_ROWS}`)]
  const columns = declared.map((row, at) =>
    toColumn(
      row,
      sample.map((values) => values[at]!),
    ),
  )
  const isTable = found.type === 'table'
  const rows = isTable && !found.withoutRowid ? estimateRows(db, from) : null
  return { stream, from, columns, primaryKey: isTable ? findKey(db, stream, declared) : [], rows }
}

function toColumn([, name, type, notNull]: Value[], sample: readonly Value[]): Column {
  const declared = String(type ?? '')
  const column: Column = { name: String(name), type: chooseType(declared, sample) }
  if (declared !== '') column.native = { system: 'sqlite', type: declared }
  if (notNull === 1n) column.nullable = false
  return column
}

function findKey(db: DatabaseSync, table: string, declared: readonly Value[][]): string[] {
  const key = declared.filter((row) => row[5] !== 0n).sort((one, other) => Number(one[5]) - Number(other[5]))
  if (key.length > 0) return key.map((row) => String(row[1]))
  const own = [...iterate(db, `PRAGMA index_list(${quoteName(table)})`)].some((row) => row[1] === KEY_INDEX)
  return own ? [...iterate(db, `PRAGMA index_info(${KEY_INDEX})`)].map((row) => String(row[2])) : []
}

/** Counting would read the whole file; rows are numbered, and few are deleted as a rule. */
function estimateRows(db: DatabaseSync, from: string): number | null {
  try {
    const [row] = iterate(db, `SELECT max(_rowid_) FROM ${from}`)
    const last = Number(row?.[0] ?? 0)
    return Number.isSafeInteger(last) && last >= 0 ? last : null
  } catch {
    // A table may have columns with all three names of the row's number.
    return null
  }
}
