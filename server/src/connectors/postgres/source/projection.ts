/**
 * The columns a pipeline selected, as SQL: excluded columns never leave the database, hashed ones only leave it hashed.
 */
import { type Column, type ColumnChoice, ConnectorError, type Encoding, type NativeForm } from '../../contract.ts'
import { quoteName } from '../shared/names.ts'
import { nativeOid } from '../shared/native-rows.ts'
import { describeColumn } from '../shared/type-names.ts'
import type { Relation, SourceColumn } from './relation.ts'

export interface Projection {
  columns: Column[]
  /** Select list of COPY's columns. */
  list: string
  /** The same with the very types of `columns`, for rows in binary form; null if some value has to stay text. */
  nativeList: string | null
  /** Select list whose row becomes the JSON object. */
  jsonList: string
}

export function projectColumns(relation: Relation, choice: ColumnChoice): Projection {
  const names = new Set(relation.columns.map(({ name }) => name))
  const hashed = new Set(choice.hash)
  const renamed = new Map(Object.entries(choice.rename ?? {}))
  for (const [setting, wanted] of [
    ['include', choice.include ?? []],
    ['exclude', choice.exclude ?? []],
    ['hash', choice.hash ?? []],
    ['rename', renamed.keys()],
  ] as const) {
    for (const name of wanted) if (!names.has(name)) throw unknownColumn(`columns.${setting}`, name, names)
  }
  const included = choice.include ? new Set(choice.include) : names
  const excluded = new Set(choice.exclude)
  const chosen = relation.columns.filter(({ name }) => included.has(name) && !excluded.has(name))
  if (chosen.length === 0)
    throw new ConnectorError('config', 'config.columns excludes every column; include at least one')
  const columns: Column[] = []
  const list: string[] = []
  const nativeList: string[] = []
  const jsonList: string[] = []
  for (const column of chosen) {
    const name = renamed.get(column.name) ?? column.name
    if (columns.some((other) => other.name === name))
      throw new ConnectorError('config', `config.columns.rename gives two columns the name ${name}`)
    const hash = hashed.has(column.name)
    const described = hash ? { name, type: 'text' as const } : describeColumn(name, column.type.name)
    columns.push(described)
    list.push(hash ? hashOf(column) : column.type.convert(reference(column)))
    const type = described.native?.type ?? 'text'
    if (nativeOid(type) !== null) nativeList.push(`(${list.at(-1)})::${type}`)
    jsonList.push(`${hash ? hashOf(column) : column.type.convertJson(reference(column))} AS ${quoteName(name)}`)
  }
  return {
    columns,
    list: list.join(', '),
    nativeList: nativeList.length === columns.length ? nativeList.join(', ') : null,
    jsonList: jsonList.join(', '),
  }
}

function unknownColumn(setting: string, name: string, names: Iterable<string>): ConnectorError {
  return new ConnectorError(
    'config',
    `config.${setting} names the column ${name}, which the stream does not have; it has ${[...names].join(', ')}`,
  )
}

export function findColumn(relation: Relation, name: string, setting: string): SourceColumn {
  const column = relation.columns.find((candidate) => candidate.name === name)
  if (!column) {
    throw unknownColumn(
      setting,
      name,
      relation.columns.map((other) => other.name),
    )
  }
  return column
}

function reference(column: SourceColumn): string {
  return `t.${quoteName(column.name)}`
}

function hashOf(column: SourceColumn): string {
  return `encode(sha256(convert_to(${reference(column)}::text, 'UTF8')), 'hex')`
}

/**
 * CSV with a quote and a delimiter that JSON never contains unescaped writes the lines unchanged, without the
 * backslashes of the text format.
 */
const jsonLines = " (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')"

export type RowForm = Encoding | NativeForm

interface CopyPlan {
  form: RowForm
  relation: Relation
  projection: Projection
  /** Expressions that follow the record in each line. */
  hidden?: string[]
  /** WHERE and ORDER BY. */
  tail: string
}

export function buildCopy({ form, relation, projection, hidden = [], tail }: CopyPlan): string {
  const extra = hidden.map((expression) => `, ${expression}`).join('')
  const from = `FROM ${relation.from} AS t ${tail}`
  if (form === 'pgcopy') return `COPY (SELECT ${projection.nativeList}${extra} ${from}) TO STDOUT (FORMAT binary)`
  if (form === 'tsv') return `COPY (SELECT ${projection.list}${extra} ${from}) TO STDOUT`
  if (hidden.length === 0)
    return `COPY (SELECT row_to_json(_sluice_row) FROM (SELECT ${projection.jsonList} ${from}) AS _sluice_row) TO STDOUT${jsonLines}`
  return `COPY (SELECT (SELECT row_to_json(_sluice_row) FROM (SELECT ${projection.jsonList}) AS _sluice_row)${extra} ${from}) TO STDOUT${jsonLines}`
}
