/** `config.columns` as a table of columns: which are loaded, under which name, and which as a hash. */
import { type Fields, isObject, setIn } from './fields.ts'

export interface ColumnRow {
  name: string
  loaded: boolean
  rename: string
  hashed: boolean
}

export interface ColumnSettings {
  /** Null: all but those in `exclude`, also those that appear later. */
  include: string[] | null
  exclude: string[]
  rename: Record<string, string>
  hash: string[]
}

export function columnsOf(config: Fields): ColumnSettings {
  const columns = isObject(config.columns) ? config.columns : {}
  const rename = isObject(columns.rename) ? Object.entries(columns.rename) : []
  return {
    include: Array.isArray(columns.include) ? columns.include.filter(isText) : null,
    exclude: textsOf(columns.exclude),
    rename: Object.fromEntries(rename.filter((pair): pair is [string, string] => isText(pair[1]))),
    hash: textsOf(columns.hash),
  }
}

/** The described columns, then those that only the config names. */
export function rowsOf(settings: ColumnSettings, described: readonly string[]): ColumnRow[] {
  const { include, exclude, rename, hash } = settings
  const named = [...(include ?? []), ...exclude, ...Object.keys(rename), ...hash]
  return [...new Set([...described, ...named])].map((name) => ({
    name,
    loaded: isLoaded(settings, name),
    rename: rename[name] ?? '',
    hashed: hash.includes(name),
  }))
}

export function isLoaded({ include, exclude }: ColumnSettings, name: string): boolean {
  return include === null ? !exclude.includes(name) : include.includes(name)
}

/** The name that a column has in the destination, where keys are named. */
export function targetName({ rename }: ColumnSettings, name: string): string {
  return rename[name] ?? name
}

export function withLoaded(config: Fields, names: readonly string[], loaded: boolean): Fields {
  const { include, exclude } = columnsOf(config)
  const [field, listed] = include === null ? (['exclude', exclude] as const) : (['include', include] as const)
  const others = listed.filter((name) => !names.includes(name))
  return withList(config, field, loaded === (field === 'include') ? [...others, ...names] : others)
}

/** Whether columns that the source gets later are loaded too: then those left out are named, otherwise those loaded. */
export function withLater(config: Fields, later: boolean, described: readonly string[]): Fields {
  const settings = columnsOf(config)
  const rows = rowsOf(settings, described)
  const listed = rows.filter((row) => row.loaded !== later).map((row) => row.name)
  return withList(withList(config, later ? 'include' : 'exclude', []), later ? 'exclude' : 'include', listed)
}

export function withRename(config: Fields, name: string, given: string): Fields {
  return setIn(config, ['columns', 'rename', name], given === '' || given === name ? undefined : given)
}

export function withHash(config: Fields, name: string, hashed: boolean): Fields {
  const { hash } = columnsOf(config)
  const others = hash.filter((other) => other !== name)
  return withList(config, 'hash', hashed ? [...others, name] : others)
}

function withList(config: Fields, field: string, names: string[]): Fields {
  return setIn(config, ['columns', field], names.length === 0 ? undefined : names)
}

const isText = (value: unknown): value is string => typeof value === 'string'

export function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter(isText) : []
}
