/**
 * Describes a file by reading its beginning. Parquet stores its columns at the end, so small Parquet files are read
 * whole.
 */
import type { Column, SourceContext, StreamDescription } from '../contract.ts'
import type { OpenFile } from '../formats/open-file.ts'
import { isJson, linesOf, readJsonLines } from '../formats/read-json-lines.ts'
import { inferType, type Kinds } from '../types/kinds.ts'
import { RecordEncoder } from '../types/record-encoder.ts'
import { openFile } from './open-file.ts'
import type { FileSettings } from './settings.ts'

const HEAD_BYTES = 1024 * 1024
const MAX_PARQUET_BYTES = 32 * 1024 * 1024

interface Head {
  chunks: Buffer[]
  /** Whether this is the whole file. */
  whole: boolean
}

export async function describeFile(context: SourceContext<FileSettings>, stream: string): Promise<StreamDescription> {
  const file = await openFile(context)
  const unknown: StreamDescription = { stream, columns: null, primary_key: [], cursor_fields: [], estimated_rows: null }
  try {
    const head = await readHead(file, file.format === 'parquet' ? MAX_PARQUET_BYTES : HEAD_BYTES)
    if (file.format === 'parquet' && !head.whole) return unknown
    if (isJson(file)) {
      const lines = await Array.fromAsync(linesOf({ ...file, chunks: each(head.chunks) }, { partial: !head.whole }))
      const { columns, records } = await inferColumns(readJsonLines(file, toChunks({ ...head, chunks: lines })))
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

async function readHead(file: OpenFile, bytes: number): Promise<Head> {
  const chunks: Buffer[] = []
  let left = bytes
  for await (const chunk of file.chunks) {
    if (chunk.length > left) {
      chunks.push(chunk.subarray(0, left))
      return { chunks, whole: false }
    }
    chunks.push(chunk)
    left -= chunk.length
  }
  return { chunks, whole: true }
}

async function* each(chunks: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* chunks
}

/** Drops the last line if it is cut off. */
async function* toChunks({ chunks, whole }: Head): AsyncGenerator<Buffer> {
  const bytes = Buffer.concat(chunks)
  const end = whole ? bytes.length : bytes.lastIndexOf(10) + 1
  if (end > 0) yield bytes.subarray(0, end)
}

async function inferColumns(
  pages: AsyncIterable<{ bytes: Buffer; records: number }>,
): Promise<{ columns: Column[]; records: number }> {
  const encoder = new RecordEncoder([])
  const seen = new Map<string, Kinds>()
  let records = 0
  for await (const page of pages) {
    records += page.records
    for (const [key, kinds] of encoder.survey(page.bytes, 0)) seen.set(key, (seen.get(key) ?? 0) | kinds)
  }
  return { columns: [...seen].map(([name, kinds]) => ({ name, type: inferType(kinds) ?? 'text' })), records }
}
