/** A preview of what is in the editor, in one shape for both languages. */
import { api, type Schemas } from '../../api/client.ts'
import { isNumber, parseExact, sayValue } from '../../api/exact-json.ts'
import type { Trial } from './authored.ts'

export interface PreviewColumn {
  name: string
  type: string
}

export interface Preview {
  stream: string
  error: string | null
  columns: PreviewColumn[]
  /** What was read until it failed, if it did. */
  rows: Record<string, unknown>[]
  logs: string[]
  /** What would make a run lose something. */
  problems: string[]
  elapsedMs: number
}

export async function runPreview(trial: Trial, maxRecords: number, signal: AbortSignal): Promise<Preview> {
  const started = performance.now()
  const preview = trial.language === 'python' ? previewPython : previewManifest
  return { stream: trial.stream, ...(await preview(trial, maxRecords, signal)), elapsedMs: performance.now() - started }
}

type Read = Omit<Preview, 'stream' | 'elapsedMs'>

async function previewPython(
  { code, stream, config, authentication }: Trial,
  max_records: number,
  signal: AbortSignal,
): Promise<Read> {
  const body = { code, stream, config, authentication: authentication ?? null, max_records }
  const { response } = await api.POST('/api/custom-sources/preview', { body, signal, parseAs: 'stream' })
  const result = parseExact(await response.text()) as Schemas['PreviewResult']
  const read = result.success ? result.records : result.partial_records
  const rows = read.map(({ id, data }) => ({ _record_id: id, ...data }))
  return { error: result.error, rows, columns: columnsOf(rows), logs: result.logs, problems: [] }
}

/** The connector `manifest` as the source of a pipeline to a file: nothing is written, and its columns have types. */
async function previewManifest(
  { code, stream, config }: Trial,
  max_records: number,
  signal: AbortSignal,
): Promise<Read> {
  const source = { name: 'manifest' as const, stream, config: { manifest: code, settings: config } }
  const body = { config: { source, destination: { name: 'file' as const } }, max_records }
  const { response } = await api.POST('/api/pipelines/preview', { body, signal, parseAs: 'stream' })
  const { error, records, columns, problems } = parseExact(await response.text()) as Schemas['PipelinePreview']
  const typed = new Map(columns.map(({ name, type }) => [name, type]))
  const named = columnsOf(records).map(({ name, type }) => ({ name, type: typed.get(name) ?? type }))
  return { error, rows: records, columns: named, logs: [], problems }
}

function columnsOf(rows: readonly Record<string, unknown>[]): PreviewColumn[] {
  const types = new Map<string, Set<string>>()
  for (const row of rows)
    for (const [name, value] of Object.entries(row)) {
      const seen = types.get(name) ?? new Set()
      if (value !== null) seen.add(typeOf(value))
      types.set(name, seen)
    }
  return [...types].map(([name, seen]) => ({ name, type: [...seen].join(' or ') || 'null' }))
}

const MOMENT = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/

function typeOf(value: unknown): string {
  if (isNumber(value)) return /^-?\d+$/.test(sayValue(value)) ? 'integer' : 'number'
  if (typeof value === 'boolean') return 'boolean'
  if (Array.isArray(value)) return 'list'
  if (typeof value === 'object') return 'object'
  return MOMENT.test(String(value)) ? 'timestamp' : 'text'
}
