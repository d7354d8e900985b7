/** Previews and connection checks of custom sources, saved or not. */
import { findAuthenticationFaults, NO_AUTHENTICATION } from '../connectors/authentication/authentication.ts'
import type { Authentication } from '../connectors/contract.ts'
import { AppError } from '../errors.ts'
import { trimError } from '../executors/reports.ts'
import type { Json } from '../json/json.ts'
import type { Actor } from '../tenancy/actor.ts'
import { openUnstoredTokens, withNote } from './call-tokens.ts'
import { findSizeFault } from './config-size.ts'
import { type CellServices, checkCodeSize, readCustomSource } from './custom-sources.ts'
import { refuse } from './faults.ts'

/** Records are JSON text: the API passes them on without parsing what a tenant's code produced. */
export interface PreviewResult {
  success: boolean
  records: Buffer
  partial_records: Buffer
  total_count: number
  execution_time_ms: number
  error: string | null
  logs: string[]
}

export interface PreviewInput {
  source_id?: string | null
  code?: string | null
  stream: string
  authentication?: unknown
  config?: unknown
  max_records?: number
}

export const DEFAULT_RECORDS = 10
const NO_RECORDS = Buffer.from('[]')

/** Given code takes precedence over the saved code; the saved name and settings still apply. */
export async function previewCustomSource(
  services: CellServices,
  actor: Actor,
  input: PreviewInput,
  signal: AbortSignal,
): Promise<PreviewResult> {
  const saved = input.source_id ? await readCustomSource(services.db, actor, input.source_id) : null
  const code = input.code ?? saved?.code
  if (code === undefined) throw new AppError('invalid_input', 'The body: give source_id or code')
  checkCodeSize(code)
  const call = {
    ...readCall(input),
    code,
    stream: input.stream,
    source_name: saved?.source_name ?? null,
    max_records: input.max_records ?? DEFAULT_RECORDS,
    validate: code !== saved?.code,
  }
  const started = performance.now()
  const { refreshTokens: tokens, note } = openUnstoredTokens()
  const result = await services.calls.run(actor.organization_id, 'preview', call, { signal, tokens })
  const none = { records: NO_RECORDS, partial_records: NO_RECORDS }
  const warnings = note() === null ? [] : [`WARN ${note()}`]
  if (result.ok) {
    const { success, error, logs, ...rest } = result.answer
    const said = { error: error && withNote(error, note()), logs: [...logs, ...warnings] }
    return { ...none, ...rest, ...said, success, [success ? 'records' : 'partial_records']: result.body }
  }
  const execution_time_ms = Math.round(performance.now() - started)
  const error = withNote(trimError(result.message), note())
  return { ...none, success: false, total_count: 0, execution_time_ms, error, logs: warnings }
}

export async function checkCustomSource(
  services: CellServices,
  actor: Actor,
  { id, ...input }: { id: string; code?: string | null; authentication?: unknown; config?: unknown },
  signal: AbortSignal,
): Promise<{ success: boolean; message: string }> {
  const { source_name, streams, ...saved } = await readCustomSource(services.db, actor, id)
  const code = input.code ?? saved.code
  checkCodeSize(code)
  const { authentication, config } = readCall(input)
  const endpoint = {
    type: 'source' as const,
    name: source_name,
    authentication: authentication ?? NO_AUTHENTICATION,
    config: config ?? {},
    custom: { code, streams, language: 'python' as const },
  }
  const { refreshTokens: tokens, note } = openUnstoredTokens()
  const options = { signal, tokens }
  const result = await services.calls.run(
    actor.organization_id,
    'check',
    { endpoint, outputs: null, stream: null },
    options,
  )
  const message = result.ok ? 'the connection works' : trimError(result.message)
  return { success: result.ok, message: withNote(message, note()) }
}

function readCall(input: { authentication?: unknown; config?: unknown }): {
  authentication: Authentication | null
  config: Record<string, Json> | null
} {
  const { authentication, config } = input
  const sizes = [findSizeFault(authentication, 'authentication'), findSizeFault(config, 'config')]
  const faults = sizes.filter((fault) => fault !== null)
  if (faults.length === 0 && authentication != null)
    faults.push(...findAuthenticationFaults(authentication, null, 'authentication'))
  if (faults.length > 0) throw refuse(faults)
  return {
    authentication: authentication == null ? null : { ...NO_AUTHENTICATION, ...(authentication as Authentication) },
    config: config == null ? null : (config as Record<string, Json>),
  }
}
