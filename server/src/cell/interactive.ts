/** Shared by validation, preview, check and stream listing: one sealed interactive call. */

import { authenticationSecrets, NO_AUTHENTICATION } from '../connectors/authentication/authentication.ts'
import { createFetch } from '../connectors/authentication/fetch.ts'
import { type Authentication, ConnectorError, type Fetch } from '../connectors/contract.ts'
import type { Egress } from '../egress/policy.ts'
import type { Json } from '../json/json.ts'
import { createBroker } from './broker.ts'
import type { CellHandlers } from './call.ts'
import { CellFailure } from './failure.ts'
import { type CellLimits, interactiveLimits } from './limits.ts'
import { getZygote } from './provider.ts'
import { createRedactor } from './redact.ts'
import type { Zygote } from './zygote.ts'

export interface SourceInput {
  code: string
  /** Requests are refused if neither this nor `fetch` is given. */
  egress?: Egress
  /** Instead of `egress`: requests with the authentication applied. */
  fetch?: Fetch
  authentication?: Authentication | null
  config?: Record<string, Json> | null
  state?: Json
  signal?: AbortSignal
  zygote?: Zygote
  wall_seconds?: number
}

/** More is not readable on a screen, and an empty line counts one byte of the limit but takes much more memory. */
const MAX_LOG_LINES = 10_000

export interface InteractiveOutcome {
  result: Json
  /** Lines with their level, followed by the author's traceback if there is one. */
  logs: string[]
  failure: CellFailure | null
}

/** Only rejects by the caller's signal: a failing source is a result. */
export async function callInteractive(
  input: SourceInput,
  job: Record<string, Json>,
  handlers: Pick<CellHandlers, 'preview'> = {},
): Promise<InteractiveOutcome> {
  const logs: string[] = []
  const whole = {
    code: input.code,
    config: (input.config ?? {}) as Json,
    state: input.state ?? null,
    authentication: { type: input.authentication?.type ?? 'none' },
    ...job,
  }
  const log = (level: string, line: string): void => {
    if (logs.length < MAX_LOG_LINES) logs.push(`${level.toUpperCase()} ${line}`)
  }
  try {
    const result = await callOnce(input, whole, handlers, log)
    return { result, logs, failure: null }
  } catch (error) {
    input.signal?.throwIfAborted()
    const failure = asCellFailure(error)
    for (const line of failure.traceback.trimEnd().split('\n')) if (line !== '') log('error', line)
    return { result: null, logs, failure }
  }
}

async function callOnce(
  input: SourceInput,
  job: Record<string, Json>,
  handlers: Pick<CellHandlers, 'preview'>,
  log: (level: string, line: string) => void,
): Promise<Json> {
  const zygote = input.zygote ?? getZygote()
  const limits = interactiveLimits({
    ...zygote.limits,
    ...(input.wall_seconds && { wall_seconds: input.wall_seconds }),
  })
  const { call, redact } = connect(input, { limits, limitName: () => 'the limit for a preview or check' }, log)
  const { result } = await zygote.call(
    job,
    { ...handlers, ...call, log, redact, ...(input.signal ? { signal: input.signal } : {}) },
    limits,
  )
  return result
}

/** The handlers through which a cell reaches the network and its credentials. */
export function connect(
  input: Pick<SourceInput, 'egress' | 'fetch' | 'authentication'>,
  allowed: { limits: CellLimits; limitName?: (limit: keyof CellLimits) => string },
  log: (level: 'info', line: string) => void,
): { call: Pick<CellHandlers, 'http' | 'secrets'>; redact: (text: string) => string } {
  const authentication = input.authentication ?? NO_AUTHENTICATION
  const known = authenticationSecrets(authentication)
  const secrets = () => authentication.params
  const fetch = input.fetch ?? (input.egress && createFetch({ egress: input.egress, authentication }))
  if (!fetch) return { call: { secrets }, redact: createRedactor(() => known) }
  const { limits, limitName } = allowed
  const broker = createBroker({ fetch, limits, ...(limitName && { limitName }), log: (line) => log('info', line) })
  return {
    call: { http: (requests, signal) => broker.answer(requests, signal), secrets },
    redact: createRedactor(() => [...known, ...fetch.obtained]),
  }
}

function asCellFailure(error: unknown): CellFailure {
  if (error instanceof CellFailure && error.limit === 'wall_seconds') {
    return new CellFailure(
      'timeout',
      `the source did not finish within ${error.value} seconds, the time limit for this call`,
    )
  }
  if (error instanceof CellFailure) return error
  if (error instanceof ConnectorError) return new CellFailure(error.kind, error.message, { cause: error })
  throw error
}
