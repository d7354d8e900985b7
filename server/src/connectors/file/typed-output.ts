/** Outputs that are kept as tab-separated text, with columns and types: what one table gave to another. */
import { readParts } from '../../blobs/part-reader.ts'
import { DamagedPart } from '../../blobs/parts.ts'
import { cutLines } from '../../json/lines.ts'
import {
  type Column,
  ConnectorError,
  type Page,
  type Reading,
  type SourceContext,
  type StreamDescription,
} from '../contract.ts'
import { createRowReader } from '../types/tsv-records.ts'
import type { FileSettings } from './settings.ts'

type Context = SourceContext<FileSettings>

/** Null if the output is of another kind. */
export function readTypedOutput(context: Context, runId: string): Reading | null {
  const columns = context.outputs.columns?.(runId) ?? null
  return columns && { columns, pages: readRows(context, runId, columns) }
}

export function describeTyped({ outputs }: Context, stream: string, runId: string): StreamDescription | null {
  const columns = outputs.columns?.(runId) ?? null
  if (columns === null) return null
  return { stream, columns: withoutNative(columns), primary_key: [], cursor_fields: [], estimated_rows: null }
}

/** The system that has these types is not the one that is read. */
function withoutNative(columns: readonly Column[]): Column[] {
  return columns.map(({ native: _, ...column }) => column)
}

async function* readRows(
  { outputs, signal }: Context,
  runId: string,
  columns: readonly Column[],
): AsyncGenerator<Page> {
  const read = createRowReader(columns)
  try {
    for await (const rows of cutLines(readParts(outputs.blobs, outputs.parts(runId) ?? []))) {
      signal.throwIfAborted()
      const bytes = read(rows)
      yield { bytes, records: countLines(bytes) }
    }
  } catch (error) {
    if (!(error instanceof RangeError || error instanceof DamagedPart)) throw error
    throw new ConnectorError('source', `The output of the run ${runId} cannot be read: ${error.message}.`, {
      cause: error,
    })
  }
}

function countLines(bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(10); at !== -1; at = bytes.indexOf(10, at + 1)) count++
  return count
}
