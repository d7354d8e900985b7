/**
 * Which SQL of a person may run in the engine: one statement that reads. DuckDB's own parser decides what the text is: it
 * returns the statement as a tree, and every table and function in that tree has to be allowed. Anything that is not a
 * SELECT has no such tree and is refused, and so are several statements.
 */
import type { DuckDBConnection } from '@duckdb/node-api'
import { ConnectorError } from './contract.ts'
import { isObject } from './settings/settings.ts'

/** The only functions that may stand in place of a table; the others read files or the settings of the server. */
const TABLE_FUNCTIONS = ['range', 'generate_series', 'unnest', 'json_each', 'json_tree', 'repeat', 'repeat_row']
/** Functions that show settings of the server, or write its log. */
const REFUSED_FUNCTIONS = ['current_setting', 'getenv', 'pg_get_viewdef', 'pg_get_constraintdef', 'write_log']

/** A table as the statement names it, in lower case; empty where it names no catalog or schema. */
export interface NamedTable {
  catalog: string
  schema: string
  table: string
}

export interface SelectRules {
  isTable(named: NamedTable): boolean
  /** Functions of the database itself that return tables, in lower case. */
  tableFunctions?: readonly string[]
  /** The end of a sentence: which tables there are. */
  known: string
  /** What a text that is not one SELECT is told. */
  oneStatement: string
}

/** Throws a ConnectorError unless the text is one statement that reads what the rules allow. */
export async function requireSelect(connection: DuckDBConnection, sql: string, rules: SelectRules): Promise<void> {
  checkTree(await parseSql(connection, sql, rules), rules)
}

async function parseSql(connection: DuckDBConnection, sql: string, { oneStatement }: SelectRules): Promise<unknown> {
  // The only way to get the tree; the text is a parameter.
  const answer = await connection.runAndReadAll('SELECT json_serialize_sql(CAST($1 AS VARCHAR))', [sql])
  const parsed = JSON.parse(String(answer.getRowsJson()[0]![0])) as {
    error: boolean
    error_type?: string
    error_message?: string
    position?: string
    statements?: unknown[]
  }
  if (parsed.error_type === 'parser') throw refuse(locate(sql, parsed.error_message ?? '', parsed.position))
  if (parsed.error || parsed.statements?.length !== 1) throw refuse(oneStatement)
  return parsed.statements[0]
}

function locate(sql: string, message: string, position: string | undefined): string {
  const before = sql.slice(0, Number(position ?? 0)).split('\n')
  return `Parser Error: ${message} (line ${before.length}, column ${before.at(-1)!.length + 1})`
}

const refuse = (message: string) => new ConnectorError('config', message)

type Names = ReadonlySet<string>
type Open = { node: unknown; names: Names }[]

function checkTree(root: unknown, rules: SelectRules): void {
  // A list of its own instead of recursion: the text decides how deep it nests.
  const open: Open = [{ node: root, names: new Set() }]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { node } = next
    if (Array.isArray(node)) for (const item of node) open.push({ node: item, names: next.names })
    else if (isObject(node)) {
      checkNode(node, next.names, rules)
      openNode(node, next.names, open)
    }
  }
}

function checkNode(node: Record<string, unknown>, names: Names, rules: SelectRules): void {
  if (node.type === 'BASE_TABLE') checkTable(node, names, rules)
  if (node.type === 'TABLE_FUNCTION') checkTableFunction(node, rules)
  if (typeof node.function_name === 'string') checkFunction(node.function_name)
}

function openNode(node: Record<string, unknown>, outer: Names, open: Open): void {
  const { cte_map, ...rest } = node
  const names = openCommonTables(cte_map, outer, open)
  for (const [field, child] of Object.entries(rest)) {
    // Only the second half of a recursive query sees the query itself.
    const recursive = node.type === 'RECURSIVE_CTE_NODE' && field === 'right'
    open.push({ node: child, names: recursive ? new Set([...names, nameOf(node.cte_name)]) : names })
  }
}

/**
 * The names that WITH gives to queries. Each sees those before it, so that a name never hides that another query means a
 * table of the catalogue.
 */
function openCommonTables(map: unknown, outer: Names, open: Open): Names {
  const entries = isObject(map) && Array.isArray(map.map) ? map.map : []
  let names = outer
  for (const entry of entries as { key: unknown; value: unknown }[]) {
    open.push({ node: entry.value, names })
    names = new Set([...names, nameOf(entry.key)])
  }
  return names
}

const nameOf = (name: unknown): string => String(name).toLowerCase()

function checkTable(node: Record<string, unknown>, names: Names, { isTable, known }: SelectRules): void {
  const named = {
    catalog: nameOf(node.catalog_name),
    schema: nameOf(node.schema_name),
    table: nameOf(node.table_name),
  }
  const isCommon = named.schema === '' && named.catalog === '' && names.has(named.table)
  if (!isCommon && !isTable(named))
    throw refuse(`There is no table "${String(node.table_name).slice(0, 100)}"; ${known}`)
}

function checkTableFunction(node: Record<string, unknown>, { tableFunctions = [], known }: SelectRules): void {
  const called = isObject(node.function) ? node.function.function_name : undefined
  if (![...TABLE_FUNCTIONS, ...tableFunctions].includes(nameOf(called)))
    throw refuse(`The function ${String(called).slice(0, 100)} is not allowed here; ${known}`)
}

function checkFunction(name: string): void {
  if (REFUSED_FUNCTIONS.includes(nameOf(name))) throw refuse(`The function ${name} is not allowed here`)
}
