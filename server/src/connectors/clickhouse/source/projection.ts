/** The columns a pipeline selected, as SQL: excluded columns never leave the server, hashed ones only leave it hashed. */
import { type Column, type ColumnChoice, ConnectorError } from '../../contract.ts'
import { describeColumn, hashOf, type SourceColumn, selected } from './column.ts'
import type { Relation } from './relation.ts'

export interface Projection {
  columns: Column[]
  list: string[]
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
  const projection: Projection = { columns: [], list: [] }
  const taken = new Set<string>()
  for (const column of chosen) {
    const name = renamed.get(column.name) ?? column.name
    if (taken.has(name)) throw new ConnectorError('config', `config.columns.rename gives two columns the name ${name}`)
    taken.add(name)
    const hash = hashed.has(column.name)
    projection.columns.push(hash ? { name, type: 'text' } : describeColumn(column, name))
    projection.list.push(hash ? hashOf(column) : selected(column))
  }
  return projection
}

function unknownColumn(setting: string, name: string, names: Iterable<string>): ConnectorError {
  return new ConnectorError(
    'config',
    `config.${setting} names the column ${name}, which the stream does not have; it has ${[...names].join(', ')}`,
  )
}

export function findColumn(relation: Relation, name: string, setting: string): SourceColumn {
  const column = relation.columns.find((candidate) => candidate.name === name)
  if (column !== undefined) return column
  throw unknownColumn(
    setting,
    name,
    relation.columns.map((other) => other.name),
  )
}
