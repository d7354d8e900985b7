/**
 * Maps fields of the records to columns of the table, and decides how the table must change before they fit. A field
 * gets its column when it is first seen with a value. Changes that `schema_change` does not allow are dropped or
 * refused here.
 */
import { type Column, ConnectorError, type Encoding, type SchemaChange } from '../../contract.ts'
import { inferType, type Kinds } from '../../types/kinds.ts'
import { createNamer, makeSafe, postgresNames } from '../../types/names.ts'
import type { EncoderColumn } from '../../types/slots.ts'
import { declaredType, neutralType, postgresType } from '../shared/type-names.ts'
import type { TableColumn } from './table.ts'
import { findTest, type WatchedField } from './watched-fields.ts'
import { fractionOf, widenDeclared, widenForValues } from './widening.ts'

interface ShapeChange {
  added: TableColumn[]
  widened: { column: TableColumn; from: string }[]
}

interface Field {
  key: string
  name: string
  type: string
  /** `generated`: the server fills this column, and the record's value is dropped. */
  state: 'written' | 'untyped' | 'ignored' | 'generated'
  /** See TableColumn. */
  was?: string
  /** The source declares text for a column that is stricter. */
  watched?: true
}

interface ShapeOptions {
  /** Columns of the existing table, or those stored by the last run, or null for a table without a shape yet. */
  existing: readonly TableColumn[] | null
  /** Columns of the table that cannot be written. */
  generated?: ReadonlySet<string>
  contract: SchemaChange
  encoding: Encoding
}

export class Shape {
  readonly #contract: SchemaChange
  readonly #encoding: Encoding
  /** The table may not change. */
  readonly #strict: boolean
  readonly #columns: Map<string, TableColumn>
  readonly #generated: ReadonlySet<string>
  readonly #fields = new Map<string, Field>()
  readonly #taken = new Set<string>()
  readonly #nameKey = createNamer(postgresNames)

  constructor({ existing, generated = new Set(), contract, encoding }: ShapeOptions) {
    this.#generated = generated
    this.#contract = contract
    this.#encoding = encoding
    this.#strict = contract !== 'evolve' && existing !== null
    this.#columns = new Map((existing ?? []).map((column) => [column.name, { ...column }]))
  }

  /** For the encoder, in the order of COPY's column list. */
  encoderColumns(): EncoderColumn[] {
    return [...this.#fields.values()].map(({ key, type, state }) => {
      const fraction = fractionOf(type)
      return {
        key,
        type: neutralType(type),
        ...(fraction === undefined ? {} : { fraction }),
        ignored: state === 'ignored' || state === 'generated',
        untyped: state === 'untyped',
      }
    })
  }

  /** The columns that are written, in the same order. */
  written(): TableColumn[] {
    return [...this.#fields.values()]
      .filter(({ state }) => state === 'written')
      .map(({ name, type, was }) => ({ name, type, ...(was === undefined ? {} : { was }) }))
  }

  /** Fields that `schema_change` made us drop. */
  get ignored(): string[] {
    return [...this.#fields.values()].filter(({ state }) => state === 'ignored').map(({ key }) => key)
  }

  /** Fields whose columns the server fills. */
  get generated(): string[] {
    return [...this.#fields.values()].filter(({ state }) => state === 'generated').map(({ key }) => key)
  }

  /** Takes a survey of fields that do not fit. */
  absorb(survey: Map<string, Kinds>): ShapeChange {
    const change: ShapeChange = { added: [], widened: [] }
    for (const [key, kinds] of survey) {
      const field = this.#fields.get(key)
      const inferred = inferType(kinds)
      const type = inferred === null ? null : postgresType(inferred)
      // The encoder checks whether values fit an existing column, because it knows the column's type.
      if (field === undefined) this.#addField(key, type, change)
      else if (field.state === 'untyped') {
        field.type = type ?? 'text'
        this.#place(field, change)
      } else if (field.state === 'written') this.#widen(field, widenForValues(field.type, kinds), change)
    }
    return change
  }

  /** Fields of typed rows whose text has to be checked, in a table that may change. */
  watched(): WatchedField[] {
    return [...this.#fields.values()].flatMap(({ key, type, state, watched }, place) => {
      const fits = state === 'written' && watched && this.#contract !== 'discard' ? findTest(type) : null
      return fits === null ? [] : [{ place, key, fits }]
    })
  }

  /** Turns their columns into text. */
  absorbTexts(misfits: readonly WatchedField[]): ShapeChange {
    const change: ShapeChange = { added: [], widened: [] }
    for (const { key } of misfits) this.#widen(this.#fields.get(key)!, 'text', change)
    return change
  }

  /** Takes the columns that a source declares; the result says which of them are written. */
  declare(declared: readonly Column[]): ShapeChange {
    const change: ShapeChange = { added: [], widened: [] }
    for (const column of declared) {
      const type = declaredType(column)
      const field = this.#addField(column.name, type, change)
      if (field.state !== 'written') continue
      this.#widen(field, widenDeclared(field.type, type, this.#encoding), change)
      if (this.#encoding === 'tsv' && column.type === 'text' && field.type !== type) field.watched = true
    }
    return change
  }

  #addField(key: string, type: string | null, change: ShapeChange): Field {
    const field: Field = {
      key,
      name: this.#chooseName(key),
      type: type ?? 'text',
      state: type === null ? 'untyped' : 'written',
    }
    const column = this.#columns.get(field.name)
    if (this.#generated.has(field.name)) field.state = 'generated'
    else if (column) {
      field.type = column.type
      field.state = 'written'
    } else if (type !== null) this.#place(field, change)
    this.#taken.add(field.name)
    this.#fields.set(key, field)
    return field
  }

  #chooseName(key: string): string {
    // A field finds the column that an earlier run created for it, even if its name had to be shortened.
    const safe = makeSafe(key, postgresNames)
    if ((this.#columns.has(safe) || this.#generated.has(safe)) && !this.#taken.has(safe)) {
      this.#nameKey(key)
      return safe
    }
    let name = this.#nameKey(key)
    while (this.#taken.has(name)) name = this.#nameKey(key)
    return name
  }

  /** Creates a column for a field that has none. */
  #place(field: Field, change: ShapeChange): void {
    if (this.#strict) {
      if (this.#contract === 'fail') refuse(`the field ${field.key} is new`)
      field.state = 'ignored'
      return
    }
    const column = { name: field.name, type: field.type }
    this.#columns.set(column.name, column)
    change.added.push({ ...column })
    field.state = 'written'
  }

  #widen(field: Field, type: string | null, change: ShapeChange): void {
    if (type === null) return
    const column = this.#columns.get(field.name)!
    if (this.#strict) {
      if (this.#contract === 'fail') refuse(`values of ${field.key} no longer fit ${column.type}, they need ${type}`)
      // In JSON lines the encoder drops single values; typed rows are not inspected, so the whole field is dropped.
      if (this.#encoding !== 'ndjson') field.state = 'ignored'
      return
    }
    change.widened.push({ column: { name: column.name, type }, from: column.type })
    // Others assume that json takes everything, so only this code knows that it must become text.
    if (column.type === 'jsonb' || column.type === 'json') field.was = column.type
    column.type = type
    field.type = type
  }
}

function refuse(what: string): never {
  throw new ConnectorError(
    'destination',
    `The schema changed and config.sync.schema_change is fail: ${what}. Change the table, or set schema_change to evolve or discard`,
  )
}

export function describeChange({ added, widened }: ShapeChange): string[] {
  return [
    ...added.map(({ name, type }) => `added column ${name} ${type}`),
    ...widened.map(({ column, from }) => `widened column ${column.name} from ${from} to ${column.type}`),
  ]
}
