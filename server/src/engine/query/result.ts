/** Writes the result of a query as JSON or CSV, up to a number of rows and bytes, and says whether that is all of it. */
import type { DuckDBDataChunk, DuckDBResult } from '@duckdb/node-api'
import { ConnectorError } from '../../connectors/contract.ts'
import type { ColumnType } from '../../connectors/types/column-types.ts'
import { kindOf, writeValue } from './result-values.ts'

/** Less than the body of an answer may have (executors/answers.ts). */
const MAX_BYTES = 16 * 1024 * 1024

export type ResultFormat = 'json' | 'csv'

interface ResultColumn {
  name: string
  type: ColumnType
}

export interface WrittenResult {
  columns: ResultColumn[]
  rows: number
  truncated: boolean
  /** Rows as an array of arrays, or lines of CSV with a header. */
  body: Buffer
}

interface Limits {
  rows: number
  signal: AbortSignal
}

export async function writeResult(result: DuckDBResult, format: ResultFormat, limits: Limits): Promise<WrittenResult> {
  const kinds = result.columnTypes().map(kindOf)
  const columns = result.columnNames().map((name, at) => ({ name, type: kinds[at]!.type }))
  const form = format === 'json' ? JSON_FORM : csvForm(columns)
  const pieces = [Buffer.from(form.start)]
  let bytes = pieces[0]!.length
  let rows = 0
  const finish = (truncated: boolean): WrittenResult => ({
    columns,
    rows,
    truncated,
    body: Buffer.concat([...pieces, Buffer.from(form.end)]),
  })
  for (let chunk = await next(result, limits); chunk !== null; chunk = await next(result, limits)) {
    // One value at a time: a whole column of long texts would be in memory twice.
    const cells = kinds.map((_, at) => chunk!.getColumnVector(at))
    for (let row = 0; row < chunk.rowCount; row++) {
      if (rows === limits.rows) return finish(true)
      const line = Buffer.from(
        form.row(
          kinds.map(({ write }, at) => writeValue(write, cells[at]!.getItem(row))),
          rows,
        ),
      )
      bytes += line.length
      if (bytes > MAX_BYTES && rows > 0) return finish(true)
      if (bytes > MAX_BYTES) throw new ConnectorError('limit', 'One row alone has more than 16 MB; select less of it')
      pieces.push(line)
      rows++
    }
  }
  return finish(false)
}

async function next(result: DuckDBResult, { signal }: Limits): Promise<DuckDBDataChunk | null> {
  signal.throwIfAborted()
  const chunk = await result.fetchChunk()
  return chunk === null || chunk.rowCount === 0 ? null : chunk
}

interface Form {
  start: string
  row(cells: string[], index: number): string
  end: string
}

const JSON_FORM: Form = {
  start: '[',
  row: (cells, index) => `${index === 0 ? '' : ',\n'}[${cells.join(',')}]`,
  end: ']',
}

/** As outputs in CSV are written: null is an empty cell, an empty text is quoted, nested values are JSON. */
function csvForm(columns: readonly ResultColumn[]): Form {
  const line = (cells: string[]) => `${cells.join(',')}\n`
  return { start: line(columns.map(({ name }) => quoteCell(name))), row: (cells) => line(cells.map(toCell)), end: '' }
}

function toCell(json: string): string {
  if (json === 'null') return ''
  return quoteCell(json.startsWith('"') ? (JSON.parse(json) as string) : json)
}

function quoteCell(text: string): string {
  if (text !== '' && !/[",\r\n]|^\s|\s$/.test(text)) return text
  return `"${text.replaceAll('"', '""')}"`
}
