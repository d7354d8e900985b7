/** The beginning of a file, and what its records say about the columns. */
import type { Column, Page } from '../contract.ts'
import { inferType, type Kinds } from '../types/kinds.ts'
import { RecordEncoder } from '../types/record-encoder.ts'
import type { OpenFile } from './open-file.ts'
import { linesOf, readJsonLines } from './read-json-lines.ts'

interface Head {
  chunks: Buffer[]
  /** Whether this is the whole file. */
  whole: boolean
}

export async function readHead(file: OpenFile, bytes: number): Promise<Head> {
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
export async function* toChunks({ chunks, whole }: Head): AsyncGenerator<Buffer> {
  const bytes = Buffer.concat(chunks)
  const end = whole ? bytes.length : bytes.lastIndexOf(10) + 1
  if (end > 0) yield bytes.subarray(0, end)
}

export async function inferColumns(
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

/** The records at the beginning of a file of JSON. */
export async function readHeadLines(file: OpenFile, head: Head): Promise<AsyncGenerator<Page>> {
  const lines = await Array.fromAsync(linesOf({ ...file, chunks: each(head.chunks) }, { partial: !head.whole }))
  return readJsonLines(file, { lines: toChunks({ ...head, chunks: lines }) })
}
