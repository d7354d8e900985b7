/** Preview, check and stream listing of a custom source, saved or not. The code runs sealed and is stopped after 30 s. */
import type { Json } from '../json/json.ts'
import { CellFailure } from './failure.ts'
import { callInteractive, type SourceInput } from './interactive.ts'

export interface PreviewInput extends SourceInput {
  stream: string
  max_records?: number
  source_name?: string
  /** Off for code that was validated when it was saved. */
  validate?: boolean
}

export interface PreviewRecord {
  id: string
  data: { [key: string]: Json }
}

export interface PreviewResult {
  success: boolean
  /** Empty where the preview failed. */
  records: PreviewRecord[]
  /** What a preview that failed had yielded until then; empty where it succeeded. */
  partial_records: PreviewRecord[]
  total_count: number
  execution_time_ms: number
  error: string | null
  logs: string[]
}

const DEFAULT_RECORDS = 10
/** A preview is held in memory as objects, which can be ten times as large, beside those of others. */
const MAX_BYTES = 16 * 1024 * 1024

export async function previewSource(input: PreviewInput): Promise<PreviewResult> {
  const started = performance.now()
  const records: PreviewRecord[] = []
  const maxRecords = input.max_records ?? DEFAULT_RECORDS
  let bytes = 0
  const job = {
    op: 'preview',
    stream: input.stream,
    max_records: maxRecords,
    validate: input.validate ?? true,
    source_name: input.source_name ?? null,
  }
  const { result, logs, failure } = await callInteractive(input, job, {
    preview(found, size) {
      if (records.length + found.length > maxRecords) {
        throw new CellFailure('sandbox', `the source sent more than the ${maxRecords} records it was asked for`)
      }
      bytes += size
      if (bytes > MAX_BYTES) {
        throw new CellFailure(
          'limit',
          `the records take more than ${MAX_BYTES >> 20} MB; ask for fewer with max_records`,
        )
      }
      records.push(...(found as unknown as PreviewRecord[]))
    },
  })
  const execution_time_ms = Math.round(performance.now() - started)
  const error = failure ? failure.message : describeInvalid(result)
  const rest = { execution_time_ms, error, logs }
  if (error !== null) return { success: false, records: [], partial_records: records, total_count: 0, ...rest }
  return { success: true, records, partial_records: [], total_count: records.length, ...rest }
}

/** The first faults of code that does not pass validation, with their lines. */
function describeInvalid(result: Json): string | null {
  const { validation } = (result ?? {}) as { validation?: { errors?: { line?: number; message?: string }[] } }
  if (!validation) return null
  const errors = (validation.errors ?? []).map(({ line, message }) => `line ${line}: ${message}`)
  const rest = errors.length > 3 ? `; and ${errors.length - 3} more` : ''
  return `the code is not valid: ${errors.slice(0, 3).join('; ')}${rest}`
}

export interface CheckResult {
  success: boolean
  message: string
}

export async function checkSource(input: SourceInput): Promise<CheckResult> {
  try {
    await requireConnection(input)
    return { success: true, message: 'the connection works' }
  } catch (error) {
    if (error instanceof CellFailure) return { success: false, message: error.message }
    throw error
  }
}

/** Rejects with a CellFailure where check_connection does not say yes. */
export async function requireConnection(input: SourceInput): Promise<void> {
  const { result, failure } = await callInteractive(input, { op: 'check' })
  if (failure) throw failure
  if ((result as { success?: unknown } | null)?.success !== true) {
    throw new CellFailure('auth', 'check_connection returned False: the credentials or settings were not accepted')
  }
}

/** Rejects with a CellFailure that says why the streams cannot be told. */
export async function listStreams(input: SourceInput): Promise<string[]> {
  const { result, failure } = await callInteractive(input, { op: 'streams' })
  if (failure) throw failure
  return readStreams(result)
}

export function readStreams(result: Json): string[] {
  const { streams } = (result ?? {}) as { streams?: unknown }
  if (!Array.isArray(streams) || !streams.every((name) => typeof name === 'string')) {
    throw new CellFailure('sandbox', 'the source gave no list of streams')
  }
  return streams
}
