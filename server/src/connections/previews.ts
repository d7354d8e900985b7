/** Previews and connection checks of custom sources, saved or not. So many of one organization at a time and no more. */
import { checkSource, type PreviewResult, previewSource } from '../cell/preview.ts'
import { findAuthenticationFaults, NO_AUTHENTICATION } from '../connectors/authentication/authentication.ts'
import type { Authentication } from '../connectors/contract.ts'
import type { Egress } from '../egress/policy.ts'
import { AppError } from '../errors.ts'
import type { Json } from '../json/json.ts'
import type { Actor } from '../tenancy/actor.ts'
import { findSizeFault } from './config-size.ts'
import { type CellServices, checkCodeSize, readCustomSource } from './custom-sources.ts'
import { refuse } from './faults.ts'
import { createTurns } from './turns.ts'

export interface PreviewServices extends CellServices {
  egress: Egress
}

export interface PreviewInput {
  source_id?: string | null
  code?: string | null
  stream: string
  authentication?: unknown
  config?: unknown
  max_records?: number
}

const turns = createTurns(64, 'previews')

/** Code that is given wins over the saved one, whose name and settings stay. */
export async function previewCustomSource(
  services: PreviewServices,
  actor: Actor,
  input: PreviewInput,
  signal: AbortSignal,
): Promise<PreviewResult> {
  const saved = input.source_id ? await readCustomSource(services.db, actor, input.source_id) : null
  const code = input.code ?? saved?.code
  if (code === undefined) throw new AppError('invalid_input', 'The body: give source_id or code')
  checkCodeSize(code)
  const call = readCall(input)
  return inTurn(actor, signal, () =>
    previewSource({
      ...call,
      code,
      stream: input.stream,
      validate: code !== saved?.code,
      ...(input.max_records !== undefined && { max_records: input.max_records }),
      ...(saved && { source_name: saved.source_name }),
      egress: services.egress,
      zygote: services.cells(),
      organization_id: actor.organization_id,
      signal,
    }),
  )
}

export async function checkCustomSource(
  services: PreviewServices,
  actor: Actor,
  id: string,
  input: { authentication?: unknown; config?: unknown },
  signal: AbortSignal,
): Promise<{ success: boolean; message: string }> {
  const { code } = await readCustomSource(services.db, actor, id)
  const call = readCall(input)
  return inTurn(actor, signal, () =>
    checkSource({
      ...call,
      code,
      egress: services.egress,
      zygote: services.cells(),
      organization_id: actor.organization_id,
      signal,
    }),
  )
}

function readCall(input: { authentication?: unknown; config?: unknown }): {
  authentication?: Authentication
  config?: Record<string, Json>
} {
  const { authentication, config } = input
  const sizes = [findSizeFault(authentication, 'authentication'), findSizeFault(config, 'config')]
  const faults = sizes.filter((fault) => fault !== null)
  if (faults.length === 0 && authentication != null)
    faults.push(...findAuthenticationFaults(authentication, null, 'authentication'))
  if (faults.length > 0) throw refuse(faults)
  return {
    ...(authentication != null && { authentication: { ...NO_AUTHENTICATION, ...(authentication as Authentication) } }),
    ...(config != null && { config: config as Record<string, Json> }),
  }
}

async function inTurn<T>(actor: Actor, signal: AbortSignal, call: () => Promise<T>): Promise<T> {
  return turns(actor.organization_id, () =>
    call().catch((error: unknown) => {
      // Nobody hears this; it only must not count as a fault of the service.
      throw signal.aborted ? new AppError('invalid_input', 'The caller went away before the answer') : error
    }),
  )
}
