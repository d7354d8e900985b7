/**
 * An incremental read sorts whole lines. Sorting all rows at once takes as much memory as the engine may have, and fails
 * when that is little. So they are read in ranges of the cursor, one after the other, each with a sort of its own.
 */
import type { DuckDBConnection } from '@duckdb/node-api'
import type { CursorPlan } from '../../database-file/incremental.ts'
import type { Relation } from '../../database-file/relation.ts'
import { quoteName } from '../../duckdb.ts'

const RANGE_ROWS = 10_000
/** A sample is enough to find ranges of about the same size; how large exactly does not matter. */
const SAMPLE_ROWS = 10_000
const LEAST_SAMPLES = 10
const COPY = 'temp.main.sluice_rows'

/** What comes after the list of each SELECT, in the order in which they have to be read. */
export async function cutRanges(connection: DuckDBConnection, relation: Relation, plan: CursorPlan): Promise<string[]> {
  const from = relation.rows === null ? await copyRows(connection, relation, plan) : relation.from
  const rows = await connection.runAndReadAll(`SELECT count(*) FROM ${from} AS t ${plan.where()}`)
  const wanted = Math.min(Number(rows.getRowsJson()[0]![0]) / RANGE_ROWS, SAMPLE_ROWS / LEAST_SAMPLES)
  const bounds = wanted <= 1 ? [] : await findBounds(connection, from, plan, Math.ceil(wanted))
  const { column, literal } = plan.cursor
  const literals = bounds.map(literal)
  return [null, ...literals].map((start, at) => {
    const end = literals[at]
    const conditions = [
      start === null ? [] : `${column} >= ${start}`,
      end === undefined ? [] : `${column} < ${end}`,
    ].flat()
    // Rows without a value come first.
    const range =
      start === null && end !== undefined ? `${column} IS NULL OR ${conditions[0]}` : conditions.join(' AND ')
    return `FROM ${from} AS t ${plan.where(range || null)} ${plan.order}`
  })
}

/** A view or a query is run once: again it might take long, and return other rows. */
async function copyRows(connection: DuckDBConnection, relation: Relation, plan: CursorPlan): Promise<string> {
  const columns = relation.columns.map(({ name }) => quoteName(name))
  await connection.run(`CREATE TEMP TABLE sluice_rows AS SELECT ${columns} FROM ${relation.from} AS t ${plan.where()}`)
  return COPY
}

/** Values of the cursor that divide the rows, each different from the one before it. */
async function findBounds(
  connection: DuckDBConnection,
  from: string,
  { hidden, cursor, where }: CursorPlan,
  ranges: number,
): Promise<string[]> {
  const { column } = cursor
  const result = await connection.runAndReadAll(`
    SELECT value FROM (
      SELECT * FROM (SELECT ${column} AS ordered, ${hidden[0]} AS value FROM ${from} AS t ${where(`${column} IS NOT NULL`)})
       USING SAMPLE reservoir(${SAMPLE_ROWS} ROWS) REPEATABLE (1))
     ORDER BY ordered`)
  const sample = result.getRowsJson().map(([value]) => String(value))
  const bounds = new Set<string>()
  if (sample.length === 0) return []
  for (let at = 1; at < ranges; at += 1) bounds.add(sample[Math.floor((at * sample.length) / ranges)]!)
  return [...bounds]
}
