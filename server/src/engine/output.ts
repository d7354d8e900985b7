/** Turns the stage into the output of the run once everything was read. */

import type { BlobStore } from '../blobs/blobs.ts'
import type { Column, OutputShape, RunLog, StageEncoding } from '../connectors/contract.ts'
import type { Endpoints } from './endpoints.ts'
import type { Output, Part } from './job.ts'

interface OutputRequest {
  blobs: BlobStore
  /** The key of a converted output. */
  key: string
  shape: OutputShape
  encoding: StageEncoding
  /** The columns that the source declared. */
  columns: readonly Column[] | null
  /** Columns of the pipeline's last file. */
  kept: readonly Column[] | null
  parts: Part[]
  checkpoint: number
  signal: AbortSignal
  log: RunLog
  /** Receives the columns if the file defines its own. */
  keepColumns(columns: Column[]): void
}

const PARQUET = 'application/vnd.apache.parquet'

export function outputShape({ destination, destinationConfig }: Endpoints): OutputShape {
  return destination.output?.(destinationConfig) ?? { format: 'jsonl', compression: 'none' }
}

/** JSON lines and tables are served from the parts directly; CSV and Parquet are converted into one object. */
export async function finishOutput(request: OutputRequest): Promise<Output> {
  const { shape, encoding, parts } = request
  const size = parts.reduce((sum, part) => sum + part.size, 0)
  if (encoding === 'tsv') {
    const columns = request.columns ? { columns: [...request.columns] } : {}
    return { parts, extension: 'tsv', content_type: 'text/tab-separated-values', size, ...columns }
  }
  if (encoding === 'parquet') {
    if (shape.format === 'parquet') request.keepColumns([...(request.columns ?? [])])
    return { parts, extension: 'parquet', content_type: PARQUET, size }
  }
  if (shape.format === 'jsonl') {
    return shape.compression === 'gzip'
      ? { parts, extension: 'jsonl.gz', content_type: 'application/gzip', size }
      : { parts, extension: 'jsonl', content_type: 'application/x-ndjson', size }
  }
  const { convertParts } = await import('./conversion.ts')
  const converted = await convertParts(request)
  request.keepColumns(converted.columns)
  const records = parts.reduce((sum, part) => sum + part.records, 0)
  const part: Part = { checkpoint: request.checkpoint, ...converted.part, records }
  const { size: convertedSize } = part
  if (shape.format === 'parquet') {
    return { parts: [part], extension: 'parquet', content_type: PARQUET, size: convertedSize }
  }
  return shape.compression === 'gzip'
    ? { parts: [part], extension: 'csv.gz', content_type: 'application/gzip', size: convertedSize }
    : { parts: [part], extension: 'csv', content_type: 'text/csv', size: convertedSize }
}
