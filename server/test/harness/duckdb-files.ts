/** DuckDB files for tests, made and read without our own code. */
import { DuckDBInstance } from '@duckdb/node-api'

const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`

async function withFile<T>(file: string, work: (run: (sql: string) => Promise<unknown[][]>) => Promise<T>): Promise<T> {
  const instance = await DuckDBInstance.create(file)
  const connection = await instance.connect()
  try {
    return await work(async (sql) => (await connection.runAndReadAll(sql)).getRowsJson() as unknown[][])
  } finally {
    connection.closeSync()
    instance.closeSync()
  }
}

/** Runs SQL, which may make the file. */
export const queryDuckdb = (file: string, sql: string): Promise<unknown[][]> => withFile(file, (run) => run(sql))

/** A table of rows that are given as JSON. Values go there as text, because DuckDB's reader of JSON rounds long numbers. */
export async function makeDuckdbFile(
  file: string,
  table: string,
  columns: Record<string, string>,
  rows: readonly string[],
): Promise<void> {
  const types = Object.values(columns)
  const cells = Object.entries(columns).map(([name, type]) => `"${name}" ${type}`)
  const tuples = rows.map(
    (row) =>
      `(${fieldsOf(row)
        .map((text, at) => literal(text, types[at]!))
        .join(', ')})`,
  )
  await withFile(file, async (run) => {
    await run(`CREATE TABLE ${table} (${cells.join(', ')})`)
    for (let at = 0; at < tuples.length; at += 200)
      await run(`INSERT INTO ${table} VALUES ${tuples.slice(at, at + 200).join(', ')}`)
  })
}

function literal(text: string | null, type: string): string {
  if (text === null) return 'NULL'
  const value = quote(text).replaceAll('\0', "' || chr(0) || '")
  return type.endsWith('[]') ? `CAST(CAST(${value} AS JSON) AS ${type})` : `CAST(${value} AS ${type})`
}

/** The fields of a row as they are written: numbers and the last, nested one with every digit. */
function fieldsOf(row: string): (string | null)[] {
  const nested = /,"(?:nested|tags)":(.*)\}$/.exec(row)![1]!
  const fields = JSON.parse(row, function (this: unknown, _key: string, value: unknown, context?: { source?: string }) {
    return typeof value === 'number' ? (context?.source ?? String(value)) : value
  } as (key: string, value: unknown) => unknown) as Record<string, unknown>
  const texts = Object.values(fields).map((value) => (value === null ? null : String(value)))
  return [...texts.slice(0, -1), nested]
}

/** The rows of a table as JSON, with every digit. */
export function readDuckdbRows(file: string, table: string): Promise<string[]> {
  return withFile(file, async (run) => {
    const columns = (await run(`DESCRIBE "${table}"`)).map(([name, type]) => ({
      name: String(name),
      type: String(type),
    }))
    const rows = await run(
      `SELECT ${columns.map(({ name }) => `CAST("${name}" AS VARCHAR)`).join(', ')} FROM "${table}"`,
    )
    const plain = /^(JSON|BOOLEAN|DOUBLE|SMALLINT|INTEGER|BIGINT|DECIMAL.*)$/
    return rows.map((row) => {
      const fields = columns.map(({ name, type }, at) => {
        const value = row[at] as string | null
        return `${JSON.stringify(name)}:${value === null || plain.test(type) ? value : JSON.stringify(value)}`
      })
      return `{${fields.join(',')}}`
    })
  })
}
