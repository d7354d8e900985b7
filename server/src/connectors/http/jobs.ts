/** Exports that an API prepares: created, asked for until they are ready, downloaded, removed. */
import type { Json } from '../../json/json.ts'
import { ConnectorError } from '../contract.ts'
import type { HttpClient } from './http-client.ts'
import type { Injected } from './outgoing.ts'
import type { JobPlan } from './plan.ts'
import type { RequestPlan } from './request-plan.ts'
import type { Scope } from './scope.ts'
import { wait } from './wait.ts'

const FIRST_POLL_MS = 200
const LONGEST_POLL_MS = 10_000
const JSON_BODY = { kind: 'json' } as const

export interface ReadyJob {
  /** `scope.job` of what follows. */
  job: NonNullable<Scope['job']>
  targets: Json[]
}

interface JobContext {
  client: HttpClient
  plan: JobPlan
  scope: Scope
  injected: readonly Injected[]
}

/** Waits until the export is ready. `created` is the answer of an earlier attempt, whose job goes on. Null: skipped. */
export async function prepareJob(context: JobContext, created: Json): Promise<ReadyJob | null> {
  const { plan } = context
  for (let attempt = 1; ; attempt++) {
    const known = attempt === 1 ? created : null
    const job = await runJob(context, known)
    if (job === 'skipped') return null
    if (typeof job !== 'string') return job
    if (attempt >= plan.attempts)
      throw new ConnectorError('source', `The export that the API prepares has ${describe(job)}, ${attempt} times.`, {
        transient: true,
      })
    await wait(plan.retryWaitMs, context.client.signal)
  }
}

const describe = (status: 'failed' | 'timeout'): string => (status === 'failed' ? 'failed' : 'not become ready in time')

async function runJob(context: JobContext, known: Json): Promise<ReadyJob | 'failed' | 'timeout' | 'skipped'> {
  const { plan, scope, client } = context
  const created = known ?? (await ask(context, plan.create, scope))
  const deadline = Date.now() + plan.timeoutMs
  for (let pause = FIRST_POLL_MS; ; pause = Math.min(pause * 2, LONGEST_POLL_MS)) {
    const job = { created, polled: null, target: null }
    const { answer, body } = await send(context, plan.poll, { ...scope, job })
    const polled = { ...scope, answer, job: { created, polled: body, target: null } }
    const status = plan.status(polled)
    if (status === null) throw new ConnectorError('source', 'The export has a status that the settings do not know.')
    if (status === 'completed') return { job: polled.job, targets: await findTargets(context, polled) }
    if (status !== 'running') return status
    if (Date.now() + pause > deadline) {
      if (plan.abort) await ask(context, plan.abort, polled)
      return 'timeout'
    }
    await wait(pause, client.signal)
  }
}

async function findTargets(context: JobContext, polled: Scope): Promise<Json[]> {
  const { plan } = context
  if (plan.targetRequest === null) return plan.targets(polled)
  const { answer, body } = await send(context, plan.targetRequest, polled)
  return plan.targets({ ...polled, answer, job: { ...polled.job!, target: body } })
}

export async function removeJob(context: JobContext, job: ReadyJob['job']): Promise<void> {
  if (context.plan.remove) await ask(context, context.plan.remove, { ...context.scope, job })
}

const ask = async (context: JobContext, request: RequestPlan, scope: Scope): Promise<Json> =>
  (await send(context, request, scope)).body

async function send({ client, injected, plan }: JobContext, request: RequestPlan, scope: Scope) {
  const sent = await client.send({
    request,
    scope,
    decoder: JSON_BODY,
    injected: request === plan.create ? injected : [],
  })
  return typeof sent === 'string' ? { answer: null, body: null } : { answer: sent, body: sent.body }
}
