/**
 * Describes a file by reading its beginning, and several by the first of them. Parquet stores its columns at the end, so small Parquet files are read
 * whole.
 */
import type { SourceContext, StreamDescription } from '../contract.ts'
import { inferColumns, readHead, readHeadLines, toChunks } from '../formats/head.ts'
import type { OpenFile } from '../formats/open-file.ts'
import { isJson } from '../formats/read-json-lines.ts'
import { openFile } from './open-file.ts'
import { type FileSettings, findPlaces } from './settings.ts'
import { describeTyped } from './typed-output.ts'

const HEAD_BYTES = 1024 * 1024
const MAX_PARQUET_BYTES = 32 * 1024 * 1024

/** How many rows there are is only known of one file. */
export async function describeFile(context: SourceContext<FileSettings>, stream: string): Promise<StreamDescription> {
  const found = await describeFirst(context, stream)
  return findPlaces(context.config).length === 1 ? found : { ...found, estimated_rows: null }
}

async function describeFirst(context: SourceContext<FileSettings>, stream: string): Promise<StreamDescription> {
  const place = findPlaces(context.config)[0]!
  const typed = 'run_id' in place ? describeTyped(context, stream, place.run_id) : null
  if (typed) return typed
  const file = await openFile(context, place)
  const unknown: StreamDescription = { stream, columns: null, primary_key: [], cursor_fields: [], estimated_rows: null }
  try {
    const head = await readHead(file, file.format === 'parquet' ? MAX_PARQUET_BYTES : HEAD_BYTES)
    if (file.format === 'parquet' && !head.whole) return unknown
    if (isJson(file)) {
      const { columns, records } = await inferColumns(await readHeadLines(file, head))
      return { ...unknown, columns, estimated_rows: head.whole ? records : null }
    }
    const part: OpenFile = { ...file, chunks: toChunks(head) }
    const { describeTable } = await import('../formats/read-table.ts')
    const { columns, rows, pages, close } = await describeTable(part, { ...context.config, signal: context.signal })
    try {
      if (columns !== null) return { ...unknown, columns, estimated_rows: rows }
      const inferred = await inferColumns(pages)
      return { ...unknown, columns: inferred.columns, estimated_rows: head.whole ? inferred.records : null }
    } finally {
      await close()
    }
  } finally {
    await file.close()
  }
}
