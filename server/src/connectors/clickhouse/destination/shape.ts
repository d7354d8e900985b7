/**
 * Maps fields of the records to columns of the table, and decides how the table must change before they fit. A field
 * gets its column when it is first seen with a value. Changes that `schema_change` does not allow are dropped or
 * refused here.
 */
import { type Column, ConnectorError, type Encoding, type SchemaChange } from '../../contract.ts'
import type { ColumnType } from '../../types/column-types.ts'
import { inferType, type Kinds } from '../../types/kinds.ts'
import { clickhouseNames, createNamer, makeSafe } from '../../types/names.ts'
import type { EncoderColumn } from '../../types/slots.ts'
import { byName, declaredColumn, fractionOf, makeColumn, type TableColumn, widenFor, widenForKinds } from './columns.ts'

interface Field {
  key: string
  /** What the source declares; for typed rows, what their text is. */
  declared: ColumnType | null
  column: TableColumn
  /** `generated`: the server fills this column, and the record's value is dropped. */
  state: 'written' | 'untyped' | 'ignored' | 'generated'
}

export interface ShapeOptions {
  /** Columns of the existing table, or those stored by the last run, or null for a table without a shape yet. */
  existing: readonly TableColumn[] | null
  generated: ReadonlySet<string>
  contract: SchemaChange
  encoding: Encoding
  /** Columns that may not be null. */
  key: readonly string[]
}

/** A column that is written, and the neutral type that the text of its values has. */
export interface WrittenColumn extends TableColumn {
  from: ColumnType
}

export class Shape {
  readonly #options: ShapeOptions
  /** The table may not change. */
  readonly #strict: boolean
  readonly #columns: Map<string, TableColumn>
  readonly #fields = new Map<string, Field>()
  readonly #taken = new Set<string>()
  readonly #nameKey = createNamer(clickhouseNames)

  constructor(options: ShapeOptions) {
    const { existing, contract } = options
    this.#options = options
    this.#strict = contract !== 'evolve' && existing !== null
    this.#columns = byName((existing ?? []).map((column) => ({ ...column })))
  }

  /** For the encoder of JSON lines, in the order of the rows. */
  encoderColumns(): EncoderColumn[] {
    return [...this.#fields.values()].map(({ key, column, state }) => ({
      key,
      type: column.neutral,
      ...(fractionOf(column) < 6 ? { fraction: fractionOf(column) } : {}),
      ignored: state === 'ignored' || state === 'generated',
      untyped: state === 'untyped',
    }))
  }

  /** The columns that are written, in the same order. */
  written(): WrittenColumn[] {
    return [...this.#fields.values()]
      .filter(({ state }) => state === 'written')
      .map(({ column, declared }) => ({ ...column, from: declared ?? column.neutral }))
  }

  /** Whether the field at each place of a typed row is written. */
  kept(): boolean[] {
    return [...this.#fields.values()].map(({ state }) => state === 'written')
  }

  names(state: 'ignored' | 'generated'): string[] {
    return [...this.#fields.values()].filter((field) => field.state === state).map(({ key }) => key)
  }

  /** Takes a survey of fields that do not fit. */
  absorb(survey: Map<string, Kinds>): void {
    for (const [key, kinds] of survey) {
      const field = this.#fields.get(key)
      const type = inferType(kinds)
      if (field === undefined) this.#addField(key, type === null ? null : makeColumn('', type), null)
      else if (field.state === 'untyped') {
        field.column = this.#asKey(makeColumn(field.column.name, type ?? 'text'))
        this.#place(field)
      } else if (field.state === 'written') this.#widen(field, widenForKinds(field.column, kinds))
    }
  }

  /** Takes the columns that a source declares. */
  declare(declared: readonly Column[]): void {
    for (const column of declared) {
      const wanted = declaredColumn(column, column.name)
      const field = this.#addField(column.name, wanted, this.#options.encoding === 'tsv' ? column.type : null)
      if (field.state === 'written') this.#widen(field, widenFor(field.column, { ...wanted, name: field.column.name }))
    }
  }

  /** A value that the column at this place cannot hold: it becomes text. False if it may not. */
  absorbText(place: number): boolean {
    const field = [...this.#fields.values()].filter(({ state }) => state === 'written')[place]!
    this.#widen(field, { ...makeColumn(field.column.name, 'text'), nullable: field.column.nullable })
    return field.column.neutral === 'text' || field.state === 'ignored'
  }

  #asKey(column: TableColumn): TableColumn {
    return this.#options.key.includes(column.name) ? { ...column, nullable: false } : column
  }

  #addField(key: string, wanted: TableColumn | null, declared: ColumnType | null): Field {
    const name = this.#chooseName(key)
    const field: Field = {
      key,
      declared,
      column: this.#asKey({ ...(wanted ?? makeColumn(name, 'text')), name }),
      state: wanted === null ? 'untyped' : 'written',
    }
    const column = this.#columns.get(name)
    if (this.#options.generated.has(name)) field.state = 'generated'
    else if (column) {
      field.column = { ...column }
      field.state = 'written'
    } else if (wanted !== null) this.#place(field)
    this.#taken.add(name)
    this.#fields.set(key, field)
    return field
  }

  #chooseName(key: string): string {
    // A field finds the column that an earlier run created for it, even if its name had to be shortened.
    const safe = makeSafe(key, clickhouseNames)
    const known = this.#columns.has(safe) || this.#options.generated.has(safe)
    let name = this.#nameKey(key)
    if (known && !this.#taken.has(safe)) return safe
    while (this.#taken.has(name)) name = this.#nameKey(key)
    return name
  }

  /** Creates a column for a field that has none. */
  #place(field: Field): void {
    if (this.#strict) {
      if (this.#options.contract === 'fail') refuse(`the field ${field.key} is new`)
      field.state = 'ignored'
      return
    }
    this.#columns.set(field.column.name, field.column)
    field.state = 'written'
  }

  #widen(field: Field, wider: TableColumn | null): void {
    if (wider === null) return
    const { column } = field
    if (this.#strict) {
      if (this.#options.contract === 'fail')
        refuse(`values of ${field.key} no longer fit ${column.sql}, they need ${wider.sql}`)
      // In JSON lines the encoder drops single values; of typed rows the whole field is dropped.
      if (this.#options.encoding !== 'ndjson') field.state = 'ignored'
      return
    }
    field.column = wider
    this.#columns.set(column.name, wider)
  }
}

function refuse(what: string): never {
  throw new ConnectorError(
    'destination',
    `The schema changed and config.sync.schema_change is fail: ${what}. Change the table, or set schema_change to evolve or discard`,
  )
}
