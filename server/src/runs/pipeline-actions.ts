/**
 * One action on many pipelines. Each is a request of its own, with its own permission, transaction and audit log entry: what
 * one pipeline refuses does not stop the others, and a crash in between leaves every pipeline either done or untouched.
 */
import { AppError } from '../errors.ts'
import { type Stores, updatePipeline } from '../pipelines/pipelines.ts'
import type { Actor } from '../tenancy/actor.ts'
import { readDomain } from '../tenancy/domains.ts'
import { deletePipeline } from './delete-pipeline.ts'
import { type TriggerServices, triggerRun } from './trigger.ts'

export const PIPELINE_ACTIONS = ['run', 'enable', 'disable', 'delete', 'move'] as const
type PipelineAction = (typeof PIPELINE_ACTIONS)[number]

export interface ActionsInput {
  action: PipelineAction
  ids: readonly string[]
  /** Where to move them; null: out of their domains. */
  domain_id?: string | null
}

export interface ActionResult {
  id: string
  ok: boolean
  detail: string
}

type ActionServices = Stores & TriggerServices & { config: Stores['config'] & TriggerServices['config'] }

/** At once, of one request: the database connections are for everybody. */
const LANES = 2

export async function actOnPipelines(
  services: ActionServices,
  actor: Actor,
  input: ActionsInput,
  onError: (error: unknown) => void,
): Promise<ActionResult[]> {
  await checkInput(services, actor, input)
  const results: ActionResult[] = new Array(input.ids.length)
  let next = 0
  const work = async (): Promise<void> => {
    for (let at = next++; at < input.ids.length; at = next++) {
      const id = input.ids[at]!
      results[at] = await act(services, actor, { ...input, id }).then(
        (detail) => ({ id, ok: true, detail }),
        (error: unknown) => ({ id, ok: false, detail: explain(error, onError) }),
      )
    }
  }
  await Promise.all(Array.from({ length: LANES }, work))
  return results
}

async function checkInput({ db }: ActionServices, actor: Actor, { action, domain_id }: ActionsInput): Promise<void> {
  if ((action === 'move') !== (domain_id !== undefined))
    throw new AppError(
      'invalid_input',
      action === 'move'
        ? 'domain_id: is required to move: the id of a domain, or null'
        : `domain_id: is only for move, not for ${action}`,
    )
  if (domain_id != null) await readDomain(db, actor, domain_id)
}

async function act(
  services: ActionServices,
  actor: Actor,
  { action, id, domain_id = null }: Omit<ActionsInput, 'ids'> & { id: string },
): Promise<string> {
  switch (action) {
    case 'run':
      return `triggered run ${(await triggerRun(services, actor, id)).id}`
    case 'enable':
    case 'disable':
      await updatePipeline(services, actor, id, { enabled: action === 'enable' })
      return `${action}d`
    case 'delete':
      await deletePipeline(services.db, actor, id)
      return 'deleted'
    case 'move':
      await updatePipeline(services, actor, id, { domain_id })
      return 'moved'
  }
}

function explain(error: unknown, onError: (error: unknown) => void): string {
  if (error instanceof AppError) return error.message
  onError(error)
  return 'An internal error; the log of the service has the cause'
}
