/** Describes a stream by the beginning of its first object, or by the footer of a Parquet file. */
import type { Column, SourceContext, StreamDescription } from '../../contract.ts'
import { inferColumns, readHead, readHeadLines, toChunks } from '../../formats/head.ts'
import { isJson } from '../../formats/read-json-lines.ts'
import type { Bucket } from '../bucket.ts'
import { findFirst } from './objects.ts'
import { isParquet, openObject } from './read-object.ts'
import type { SourceSettings } from './settings.ts'

const HEAD_BYTES = 1024 * 1024

export async function describeStream(
  bucket: Bucket,
  { config, signal }: SourceContext<SourceSettings>,
  stream: string,
): Promise<StreamDescription> {
  const unknown: StreamDescription = { stream, columns: null, primary_key: [], cursor_fields: [], estimated_rows: null }
  const object = await findFirst(bucket, config, stream)
  if (object === null || object.size === 0) return unknown
  const ofParquet = async (): Promise<StreamDescription> => {
    const { describeParquet } = await import('./parquet.ts')
    return { ...unknown, columns: (await describeParquet(bucket, object)).columns }
  }
  if (isParquet(config, object)) return ofParquet()
  const file = await openObject(bucket, config, object)
  try {
    if (file.format === 'parquet') return file.packed ? unknown : await ofParquet()
    const head = await readHead(file, HEAD_BYTES)
    if (isJson(file)) return { ...unknown, columns: (await inferColumns(await readHeadLines(file, head))).columns }
    const part = { ...file, chunks: toChunks(head) }
    const { describeTable } = await import('../../formats/read-table.ts')
    const { pages, close } = await describeTable(part, { ...config, signal })
    try {
      const columns: Column[] = (await inferColumns(pages)).columns
      return { ...unknown, columns }
    } finally {
      await close()
    }
  } finally {
    await file.close()
  }
}
