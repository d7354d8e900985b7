/**
 * The columns of csv and parquet objects. What the source declares stays. Otherwise a column keeps the type that the manifest
 * has for it as long as that holds all values, and becomes wider where it does not; new ones are inferred. Every object is
 * complete in itself, so objects from before a change keep the types they were written with.
 */
import { type Column, ConnectorError, type LoadContext, type Page } from '../../contract.ts'
import { LineSurvey, surveyLines } from '../../formats/line-survey.ts'
import { canHold, chooseOutputColumns, inferColumn, type OutputColumn } from '../../formats/output-columns.ts'
import { addFacts, type ColumnFacts, type LineFacts, noFacts, noLines } from '../../types/column-facts.ts'
import { commonType } from '../../types/widening.ts'

type Given = Pick<LoadContext, 'columns' | 'sync' | 'log'>

export class ObjectColumns {
  readonly #given: Given
  readonly #schema: Column[] | null
  readonly #survey = new LineSurvey()
  #lines: LineFacts = noLines
  readonly #told = new Set<string>()
  #current: OutputColumn[] = []

  /** `schema`: the columns that the target has. */
  constructor(given: Given, schema: Column[] | null) {
    this.#given = given
    this.#schema = schema
  }

  addFacts(columns: ColumnFacts[]): void {
    this.#lines = addFacts(this.#lines, { ...noLines, columns })
  }

  add({ bytes, facts }: Pick<Page, 'bytes' | 'facts'>): void {
    if (facts === undefined) surveyLines(this.#survey, bytes)
    this.#lines = addFacts(this.#lines, facts ?? this.#survey.take())
  }

  /** The columns of an object that an earlier attempt converted. */
  resume(columns: readonly Column[]): void {
    this.#current = columns.map(({ name, type }) => ({ name, type, duckdb: '' }))
  }

  /** What is known about all lines so far. */
  get lines(): LineFacts {
    return this.#lines
  }

  /** The columns of an object with everything that was added so far. */
  choose(): OutputColumn[] {
    const { columns: declared, sync, log } = this.#given
    const schema = this.#schema
    const facts = this.#lines.columns
    const found = sync.schema_change === 'discard' && schema ? facts.filter(({ name }) => isKnown(schema, name)) : facts
    if (sync.schema_change === 'fail' && schema) refuseChanges(schema, found)
    const known = declared ?? (schema && widen(schema, found))
    const { columns, texts } = chooseOutputColumns(known, found, null)
    for (const { name, type } of texts) {
      if (this.#told.has(name)) continue
      this.#told.add(name)
      log.warn(`Column ${name} is text: ${type} cannot hold all of its values exactly.`)
    }
    this.#current = columns
    return columns
  }

  /** As of the last object. */
  get kept(): Column[] {
    return this.#current.map(({ name, type }) => ({ name, type }))
  }

  /** What is different from the last run, for the owner of the pipeline. */
  get changes(): string[] {
    const schema = this.#schema
    if (schema === null) return []
    const before = new Map(schema.map(({ name, type }) => [name, type]))
    return this.kept.flatMap(({ name, type }) => {
      const old = before.get(name)
      if (old === undefined) return [`New column ${name} (${type}).`]
      return old === type ? [] : [`Column ${name} was ${old} and is ${type} now.`]
    })
  }
}

const isKnown = (schema: readonly Column[], name: string): boolean => schema.some((column) => column.name === name)

function widen(schema: readonly Column[], found: readonly ColumnFacts[]): Column[] {
  const facts = new Map(found.map((each) => [each.name, each]))
  return schema.map(({ name, type }) => {
    const seen = facts.get(name) ?? noFacts(name)
    return { name, type: canHold(type, seen) ? type : commonType(type, inferColumn(seen).type) }
  })
}

function refuseChanges(schema: readonly Column[], found: readonly ColumnFacts[]): void {
  for (const facts of found) {
    const column = schema.find(({ name }) => name === facts.name)
    if (column && canHold(column.type, facts)) continue
    const what = column ? `Column ${facts.name} no longer fits ${column.type}` : `There is a new field ${facts.name}`
    throw new ConnectorError(
      'destination',
      `${what}, and schema_change is fail; allow it with evolve, or leave new fields out with discard.`,
    )
  }
}
