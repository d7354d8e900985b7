/**
 * The types of columns that are only known as text: in a CSV file, and where a declared type may not hold every value. All
 * rows decide, so that a cast never fails and never loses a digit; what fits nothing stays text.
 */
import type { DuckDBConnection } from '@duckdb/node-api'

/** A column of text, as an expression over the rows. */
export interface TextCell {
  sql: string
  /** The types to try, most exact first. Empty: it is text. */
  candidates: readonly string[]
}

/** `DECIMAL` gets as many digits as the values need. */
export const GUESSED = ['BOOLEAN', 'BIGINT', 'DECIMAL', 'DOUBLE', 'DATE', 'TIMESTAMP', 'TIMESTAMPTZ'] as const

const MAX_DIGITS = 38
/** That many digits survive a double. */
const DOUBLE_DIGITS = 15
const SAMPLE_ROWS = 2048

const forms: Record<string, string> = {
  BOOLEAN: 'true|false',
  BIGINT: '0|-?[1-9][0-9]{0,18}',
  DECIMAL: `-?(0|[1-9][0-9]{0,${MAX_DIGITS - 1}})(\\.[0-9]{1,${MAX_DIGITS}})?`,
  DOUBLE: `-?(0|[1-9][0-9]{0,${DOUBLE_DIGITS}})(\\.[0-9]+)?([eE][+-]?[0-9]{1,3})?`,
  DATE: '[0-9]{4}-[0-9]{2}-[0-9]{2}',
  TIMESTAMP: '[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,6})?',
  TIMESTAMPTZ: '[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,6})?(Z|[+-][0-9]{2}(:?[0-9]{2})?)',
}

interface Trial {
  column: number
  type: string
  sql: string
}

/** The type of each cell, null for text. */
export async function chooseTypes(
  connection: DuckDBConnection,
  rows: string,
  cells: readonly TextCell[],
): Promise<(string | null)[]> {
  const all = cells.flatMap(({ sql, candidates }, column) => candidates.map((type) => ({ column, type, sql })))
  // The first rows rule out most of them. Null: all were empty, which decides nothing.
  const early = await judge(connection, `${rows} LIMIT ${SAMPLE_ROWS}`, all)
  const likely = all.filter((_, at) => early[at] !== false)
  const verdicts = await judge(connection, rows, likely)
  const chosen = cells.map((_, column) => likely.find((trial, at) => trial.column === column && verdicts[at] === true))
  const decimals = await measureDecimals(connection, rows, chosen)
  return chosen.map((trial, column) => (trial?.type === 'DECIMAL' ? decimals[column]! : (trial?.type ?? null)))
}

async function judge(
  connection: DuckDBConnection,
  rows: string,
  trials: readonly Trial[],
): Promise<(boolean | null)[]> {
  if (trials.length === 0) return []
  const verdicts = trials.map(({ type, sql }) => {
    const form = forms[type] === undefined ? '' : `regexp_full_match(${sql}, '${forms[type]}') AND `
    const digits =
      type === 'DOUBLE'
        ? ` AND length(regexp_replace(regexp_replace(${sql}, '[eE].*', ''), '[-.]', '', 'g')) <= ${DOUBLE_DIGITS}`
        : ''
    return `bool_and(${form}${type === 'DECIMAL' ? 'true' : `TRY_CAST(${sql} AS ${type}) IS NOT NULL`}${digits}) FILTER (WHERE ${sql} IS NOT NULL)`
  })
  const answer = await connection.runAndReadAll(`SELECT ${verdicts.join(', ')} FROM (${rows})`)
  return answer.getRowsJson()[0] as (boolean | null)[]
}

/** With the digits that the values have before and after the point; null if they are too many. */
async function measureDecimals(
  connection: DuckDBConnection,
  rows: string,
  chosen: readonly (Trial | undefined)[],
): Promise<(string | null)[]> {
  const decimals = chosen.flatMap((trial, column) => (trial?.type === 'DECIMAL' ? [{ column, sql: trial.sql }] : []))
  const types: (string | null)[] = chosen.map(() => null)
  if (decimals.length === 0) return types
  const sizes = decimals.flatMap(({ sql }) => [
    `max(length(regexp_extract(${sql}, '[0-9]+')))`,
    `max(length(regexp_extract(${sql}, '\\.([0-9]+)', 1)))`,
  ])
  const answer = await connection.runAndReadAll(`SELECT ${sizes.join(', ')} FROM (${rows})`)
  const found = answer.getRowsJson()[0]!.map(Number)
  for (const [at, { column }] of decimals.entries()) {
    const [whole, scale] = [found[2 * at]!, found[2 * at + 1]!]
    if (whole + scale <= MAX_DIGITS) types[column] = `DECIMAL(${whole + scale <= 18 ? 18 : MAX_DIGITS},${scale})`
  }
  return types
}
