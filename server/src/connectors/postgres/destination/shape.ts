/**
 * Which field of the records goes into which column of the table being written, and how the table must change before they
 * fit. A field gets its column when it is first seen with a value. What the contract `schema_change` does not allow is
 * dropped or refused here.
 */
import { type Column, ConnectorError, type SchemaChange } from '../../contract.ts'
import { inferType, type Kinds, widenDeclared, widenType } from '../../types/kinds.ts'
import { createNamer, makeSafe, postgresNames } from '../../types/names.ts'
import type { EncoderColumn } from '../../types/record-encoder.ts'

export interface ShapeChange {
  added: Column[]
  widened: { column: Column; from: string }[]
}

interface Field {
  key: string
  name: string
  type: string
  state: 'written' | 'untyped' | 'ignored'
}

export interface Shape {
  /** Columns of the table as it will be after all changes so far. */
  readonly columns: Column[]
  /** For the encoder, in the order of COPY's column list. */
  encoderColumns(): EncoderColumn[]
  /** The columns that are written, in the same order. */
  written(): Column[]
  /** Takes a survey of fields that do not fit. */
  absorb(survey: Map<string, Kinds>): ShapeChange
  /** Takes the columns that a source declares; the result says which of them are written. */
  declare(columns: readonly Column[]): ShapeChange
  /** Fields that the contract dropped. */
  readonly ignored: string[]
}

export interface ShapeOptions {
  /** Columns of the existing table, or those kept from the last run, or null for a table that is yet to be shaped. */
  existing: readonly Column[] | null
  contract: SchemaChange
}

export function createShape({ existing, contract }: ShapeOptions): Shape {
  const columns: Column[] = (existing ?? []).map((column) => ({ ...column }))
  const byName = new Map(columns.map((column) => [column.name, column]))
  const fields = new Map<string, Field>()
  const mapped = new Set<string>()
  const strict = contract !== 'evolve' && existing !== null
  const nameKey = createNamer(postgresNames)

  function chooseName(key: string): string {
    // A field finds the column that an earlier run made for it, also where its name had to be cut.
    const safe = makeSafe(key, postgresNames)
    if (byName.has(safe) && !mapped.has(safe)) {
      nameKey(key)
      return safe
    }
    let name = nameKey(key)
    while (mapped.has(name)) name = nameKey(key)
    return name
  }

  function refuse(what: string): never {
    throw new ConnectorError(
      'destination',
      `The schema changed and config.sync.schema_change is fail: ${what}. Change the table, or set schema_change to evolve or discard`,
    )
  }

  function addField(key: string, type: string | null, change: ShapeChange): Field {
    const field: Field = {
      key,
      name: chooseName(key),
      type: type ?? 'text',
      state: type === null ? 'untyped' : 'written',
    }
    const column = byName.get(field.name)
    if (column) {
      field.type = column.type
      field.state = 'written'
    } else if (type !== null) place(field, change)
    mapped.add(field.name)
    fields.set(key, field)
    return field
  }

  /** Makes a column for a field that has none. */
  function place(field: Field, change: ShapeChange): void {
    if (strict) {
      if (contract === 'fail') refuse(`the field ${field.key} is new`)
      field.state = 'ignored'
      return
    }
    const column = { name: field.name, type: field.type }
    columns.push(column)
    byName.set(column.name, column)
    change.added.push({ ...column })
    field.state = 'written'
  }

  function widen(field: Field, type: string | null, change: ShapeChange): void {
    if (type === null) return
    const column = byName.get(field.name)!
    if (strict) {
      if (contract === 'fail') refuse(`values of ${field.key} no longer fit ${column.type}, they need ${type}`)
      return
    }
    change.widened.push({ column: { name: column.name, type }, from: column.type })
    column.type = type
    field.type = type
  }

  return {
    columns,
    encoderColumns: () =>
      [...fields.values()].map(({ key, type, state }) => ({
        key,
        type,
        ignored: state === 'ignored',
        untyped: state === 'untyped',
      })),
    written: () =>
      [...fields.values()].filter(({ state }) => state === 'written').map(({ name, type }) => ({ name, type })),
    absorb(survey) {
      const change: ShapeChange = { added: [], widened: [] }
      for (const [key, kinds] of survey) {
        const field = fields.get(key)
        // Whether values fit a column that was there before is for the encoder to see, which knows its type then.
        if (field === undefined) addField(key, inferType(kinds), change)
        else if (field.state === 'untyped') {
          field.type = inferType(kinds) ?? 'text'
          place(field, change)
        } else if (field.state === 'written') widen(field, widenType(field.type, kinds), change)
      }
      return change
    },
    declare(declared) {
      const change: ShapeChange = { added: [], widened: [] }
      for (const { name, type } of declared) {
        const field = addField(name, type, change)
        if (field.state === 'written') widen(field, widenDeclared(field.type, type), change)
      }
      return change
    },
    get ignored() {
      return [...fields.values()].filter(({ state }) => state === 'ignored').map(({ key }) => key)
    },
  }
}

export function describeChange({ added, widened }: ShapeChange): string[] {
  return [
    ...added.map(({ name, type }) => `added column ${name} ${type}`),
    ...widened.map(({ column, from }) => `widened column ${column.name} from ${from} to ${column.type}`),
  ]
}
