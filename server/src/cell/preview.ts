/** Preview, check and stream listing of a custom source, saved or not. The code runs sealed and is stopped after 30 s. */
import type { Json } from '../json/json.ts'
import { CellFailure } from './failure.ts'
import { callInteractive, type SourceInput } from './interactive.ts'

export interface PreviewInput extends SourceInput {
  stream: string
  max_records?: number
  source_name?: string | null
  /** False for code that was validated when it was saved. */
  validate?: boolean
}

export interface PreviewResult {
  success: boolean
  /**
   * What was yielded, even if it failed later: a JSON array of `{id, data}` as text. It is passed to the caller
   * unchanged, with every digit of its numbers.
   */
  records: Buffer
  total_count: number
  execution_time_ms: number
  error: string | null
  logs: string[]
}

const DEFAULT_RECORDS = 10
const MAX_BYTES = 16 * 1024 * 1024

export async function previewSource(input: PreviewInput): Promise<PreviewResult> {
  const started = performance.now()
  const texts: Buffer[] = []
  const maxRecords = input.max_records ?? DEFAULT_RECORDS
  let total_count = 0
  const job = {
    op: 'preview',
    stream: input.stream,
    max_records: maxRecords,
    validate: input.validate ?? true,
    source_name: input.source_name ?? null,
  }
  const { result, logs, failure } = await callInteractive(input, job, {
    preview: {
      max_bytes: MAX_BYTES,
      take(records, bytes) {
        total_count += records
        if (total_count > maxRecords)
          throw new CellFailure('sandbox', `the source sent more than the requested ${maxRecords} records`)
        if (records > 0) texts.push(bytes)
      },
    },
  })
  const execution_time_ms = Math.round(performance.now() - started)
  const error = failure ? failure.message : describeInvalid(result)
  const success = error === null
  const records = joinRecords(texts)
  return { success, records, total_count: success ? total_count : 0, execution_time_ms, error, logs }
}

const joinRecords = (texts: readonly Buffer[]): Buffer =>
  Buffer.concat([
    Buffer.from('['),
    ...texts.flatMap((text, index) => (index === 0 ? [text] : [Buffer.from(','), text])),
    Buffer.from(']'),
  ])

/** The first faults of invalid code, with their lines. */
function describeInvalid(result: Json): string | null {
  const { validation } = (result ?? {}) as { validation?: { errors?: { line?: number; message?: string }[] } }
  if (!validation) return null
  const errors = (validation.errors ?? []).map(({ line, message }) => `line ${line}: ${message}`)
  const rest = errors.length > 3 ? `; and ${errors.length - 3} more` : ''
  return `the code is not valid: ${errors.slice(0, 3).join('; ')}${rest}`
}

/** Rejects with a CellFailure if check_connection does not return True. */
export async function requireConnection(input: SourceInput): Promise<void> {
  const { result, failure } = await callInteractive(input, { op: 'check' })
  if (failure) throw failure
  if ((result as { success?: unknown } | null)?.success !== true) {
    throw new CellFailure('auth', 'check_connection returned False: the credentials or settings were not accepted')
  }
}

/** Rejects with a CellFailure that says why the streams cannot be listed. */
export async function listStreams(input: SourceInput): Promise<string[]> {
  const { result, failure } = await callInteractive(input, { op: 'streams' })
  if (failure) throw failure
  return readStreams(result)
}

export function readStreams(result: Json): string[] {
  const { streams } = (result ?? {}) as { streams?: unknown }
  if (!Array.isArray(streams) || !streams.every((name) => typeof name === 'string')) {
    throw new CellFailure('sandbox', 'get_streams did not return a list of stream names')
  }
  return streams
}
