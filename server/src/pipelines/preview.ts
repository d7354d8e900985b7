/** A pipeline before it is saved: its first records, and what they would do to the destination. Nothing is written. */
import { openTokens, originOf, withNote } from '../connections/call-tokens.ts'
import { refuse } from '../connections/faults.ts'
import { restoreMasks } from '../connections/masks.ts'
import { findOutputs, type ProbeServices } from '../connections/probes.ts'
import { type ConnectorReferences, loadReferences, wantedBy } from '../connections/references.ts'
import { secretsOf } from '../connections/resolve.ts'
import { ConnectorError } from '../connectors/contract.ts'
import { createRedact } from '../connectors/settings/redact.ts'
import { isObject } from '../connectors/settings/settings.ts'
import type { Answers } from '../executors/answers.ts'
import type { ProbedEndpoint } from '../executors/messages.ts'
import { trimError } from '../executors/reports.ts'
import type { Actor } from '../tenancy/actor.ts'
import { checkConfig } from './config.ts'
import { requireReadableRuns, type Stores } from './pipelines.ts'
import { type ResolvedConfig, resolveWith } from './resolve.ts'
import { restoreStored } from './stored-secrets.ts'
import { keepsToken, readStored } from './tried-config.ts'

export interface PipelinePreviewInput {
  config: unknown
  max_records?: number
  /** The pipeline whose secrets the masks of the config stand for. */
  pipeline_id?: string
}

type Previewed = Omit<Answers['pipeline_preview'], 'count'>

export interface PipelinePreviewResult extends Previewed {
  success: boolean
  /** JSON text: the API passes records on without parsing them. */
  records: Buffer
  error: string | null
}

const DEFAULT_RECORDS = 10
const NOTHING = { records: Buffer.from('[]'), columns: [], changes: [], problems: [] }

export async function previewPipeline(
  services: Stores & ProbeServices,
  actor: Actor,
  input: PipelinePreviewInput,
  signal: AbortSignal,
): Promise<PipelinePreviewResult> {
  const { db, box } = services
  const { config: given, max_records = DEFAULT_RECORDS, pipeline_id } = input
  const stored = await readStored(services, actor, input)
  const references = await loadReferences(db, actor.organization_id, wantedBy(given))
  const restored = stored
    ? restoreStored(given, stored, services.config, 'config.')
    : restoreMasks(given, undefined, 'config')
  const { config } = checkConfig(restored, references, box, services.config)
  await requireReadableRuns(services, actor, config, references)
  const resolved = resolve(config, references, box)
  const { source, destination, outputs } = await toEndpoints(services, actor, resolved, references)
  const held = isObject(given) && keepsToken(given.source) ? pipeline_id : undefined
  const origin = originOf(resolved.source.saved_connector_id, held)
  const tokens = openTokens(services, actor.organization_id, origin, resolved.source)
  const { sync, columns } = resolved
  const call = { source, destination, outputs, stream: resolved.source.stream, sync, columns, max_records }
  const options = { signal, tokens: tokens.refreshTokens }
  const result = await services.calls
    .run(actor.organization_id, 'pipeline_preview', call, options)
    .finally(() => tokens.close())
  const redact = createRedact(secretsOf(resolved))
  const say = (text: string): string => trimError(redact(text))
  if (!result.ok) return { ...NOTHING, success: false, error: withNote(say(result.message), tokens.note()) }
  const { count: _, ...answer } = result.answer
  const note = tokens.note()
  return {
    ...answer,
    success: true,
    records: result.body,
    changes: answer.changes.map(say),
    problems: [...answer.problems.map(say), ...(note === null ? [] : [note])],
    error: null,
  }
}

/** A saved connector whose key is lost, or a source that was deleted since the check. */
function resolve(...given: Parameters<typeof resolveWith>): ResolvedConfig {
  try {
    return resolveWith(...given)
  } catch (error) {
    throw error instanceof ConnectorError ? refuse([`config: ${error.message}`]) : error
  }
}

async function toEndpoints(
  services: ProbeServices,
  actor: Actor,
  { source, destination }: ResolvedConfig,
  references: ConnectorReferences,
) {
  const { name, authentication, config, custom } = source
  const endpoint: Extract<ProbedEndpoint, { type: 'source' }> = {
    type: 'source',
    name,
    authentication,
    config,
    custom: custom ? { code: custom.code, streams: references.custom!.streams, language: custom.language } : null,
  }
  return {
    source: endpoint,
    destination: { type: 'destination' as const, name: destination.name, config: destination.config },
    outputs: await findOutputs(services, actor, endpoint),
  }
}
