/**
 * Which columns the table of a file has once the records of a run are in it. All of them are known before the first is
 * written, so a table changes once per run at most. Changes that `schema_change` does not allow are dropped or refused here.
 */
import { type Column, ConnectorError, type SchemaChange } from '../contract.ts'
import { type ColumnFacts, noFacts } from '../types/column-facts.ts'
import type { ColumnType } from '../types/column-types.ts'
import { createNamer, makeSafe } from '../types/names.ts'

export interface TableColumn {
  name: string
  /** What its values are, as far as records are concerned. */
  type: ColumnType
  /** As SQL writes it. */
  sql: string
}

/** What a field of the records is: the type that the source declares, if it does, and what its values are. */
export interface FieldFacts {
  declared: ColumnType | null
  facts: ColumnFacts
}

export interface ColumnDialect {
  /** Null if there were only nulls, and nothing is declared. */
  make(field: FieldFacts): Omit<TableColumn, 'name'> | null
  /** Whether the column holds all values without loss. */
  holds(column: TableColumn, field: FieldFacts): boolean
  /** A column that holds both. */
  widen(column: TableColumn, field: FieldFacts): Omit<TableColumn, 'name'>
}

interface WrittenField {
  /** The name of the field in the records. */
  key: string
  column: TableColumn
}

export interface TablePlan {
  /** Of the table, in order. */
  columns: TableColumn[]
  /** Of the records, those that are written. */
  fields: WrittenField[]
  added: TableColumn[]
  widened: { from: TableColumn; to: TableColumn }[]
  /** For people. */
  changes: string[]
  /** Fields of the records that the table has no column for and may not get. */
  ignored: string[]
  /** The table may not change, so values that do not fit are left out. */
  drops: boolean
}

interface PlanInput {
  /** Null: a new table. */
  existing: readonly TableColumn[] | null
  declared: readonly Column[] | null
  found: readonly ColumnFacts[]
  contract: SchemaChange
  dialect: ColumnDialect
}

/** Neither SQLite nor DuckDB tells `Id` from `id`. */
const names = { maxBytes: 512, caseSensitive: false, refused: /[\u0000-\u001f\u007f]/gu, endsInBlank: true }
const fold = (name: string): string => name.toLowerCase()

export function planTable({ existing, declared, found, contract, dialect }: PlanInput): TablePlan {
  const strict = existing !== null && contract !== 'evolve'
  const plan: TablePlan = {
    columns: (existing ?? []).map((column) => ({ ...column })),
    fields: [],
    added: [],
    widened: [],
    changes: [],
    ignored: [],
    drops: strict,
  }
  const place = (key: string, name: string, field: FieldFacts): void => {
    const at = plan.columns.findIndex((column) => fold(column.name) === fold(name))
    if (at < 0) {
      addColumn(key, name, field)
      return
    }
    const column = plan.columns[at]!
    if (!dialect.holds(column, field)) {
      const wider = { ...dialect.widen(column, field), name: column.name }
      if (strict && contract === 'fail')
        throw refuse(`values of ${key} no longer fit ${column.sql}, they need ${wider.sql}`)
      if (!strict) {
        plan.columns[at] = wider
        plan.widened.push({ from: column, to: wider })
        plan.changes.push(`widened column ${column.name} from ${column.sql} to ${wider.sql}`)
      }
    }
    plan.fields.push({ key, column: plan.columns[at]! })
  }
  const addColumn = (key: string, name: string, field: FieldFacts): void => {
    const made = dialect.make(field)
    if (made === null) return
    if (strict && contract === 'fail') throw refuse(`the field ${key} is new`)
    if (strict) return void plan.ignored.push(key)
    const column = { ...made, name }
    plan.columns.push(column)
    plan.added.push(column)
    if (existing !== null) plan.changes.push(`added column ${name} ${column.sql}`)
    plan.fields.push({ key, column })
  }
  for (const { key, name, field } of nameFields(existing ?? [], declared ?? [], found)) place(key, name, field)
  return plan
}

interface NamedField {
  key: string
  name: string
  field: FieldFacts
}

/** A field finds the column that an earlier run made for it: first those that are written the same, then the others. */
function nameFields(
  existing: readonly TableColumn[],
  declared: readonly Column[],
  found: readonly ColumnFacts[],
): NamedField[] {
  const facts = new Map(found.map((column) => [column.name, column]))
  const types = new Map(declared.map(({ name, type }) => [name, type]))
  const keys = [...new Set([...types.keys(), ...facts.keys()])]
  const known = new Map(existing.map(({ name }) => [fold(name), name]))
  const taken = new Set<string>()
  const chosen = new Map<string, string>()
  const take = (key: string, name: string): void => {
    chosen.set(key, name)
    taken.add(fold(name))
  }
  const exact = new Set(known.values())
  for (const key of keys) {
    const name = makeSafe(key, names)
    if (exact.has(name) && !taken.has(fold(name))) take(key, name)
  }
  for (const key of keys) {
    if (chosen.has(key)) continue
    const same = known.get(fold(makeSafe(key, names)))
    take(key, same !== undefined && !taken.has(fold(same)) ? same : createNamer(names, taken)(key))
  }
  return keys.map((key) => ({
    key,
    name: chosen.get(key)!,
    field: { declared: types.get(key) ?? null, facts: facts.get(key) ?? noFacts(key) },
  }))
}

function refuse(what: string): ConnectorError {
  return new ConnectorError(
    'destination',
    `The schema changed and config.sync.schema_change is fail: ${what}. Set schema_change to evolve or discard, or change the source`,
  )
}

/** The columns of the primary key, by the names that they have in the table. */
export function requireKey(plan: TablePlan, key: readonly string[]): TableColumn[] {
  return key.map((name) => {
    const field = plan.fields.find((candidate) => candidate.key === name)
    const column = field?.column ?? plan.columns.find((candidate) => candidate.name === name)
    if (!column)
      throw new ConnectorError(
        'config',
        `config.sync.primary_key names ${name}, which no record has; they have ${plan.fields.map((each) => each.key).join(', ') || 'no fields'}`,
      )
    if (column.type === 'json')
      throw new ConnectorError(
        'config',
        `config.sync.primary_key names ${name}, which holds nested values; choose another key`,
      )
    return column
  })
}
