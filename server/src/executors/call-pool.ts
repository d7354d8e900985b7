/**
 * The API's own executors, for what somebody waits for: checks, lists of streams, previews, validations. They are apart
 * from those of runs, so that neither ever waits for the other; a process does one call at a time.
 *
 * A process is used again, by its own organization, after a clean end: the call ended by itself, with an answer or a failure
 * that passes answers.ts, and the process neither opened DuckDB nor was given the way to the blob store. After a deadline,
 * too much memory, a caller who went away, an answer that cannot be true or a message that nobody asked for, the whole
 * process group is killed.
 */
import type { SelfTestResult } from '../cell/self-test.ts'
import type { RefreshTokens } from '../connectors/authentication/refresh-tokens.ts'
import { AppError } from '../errors.ts'
import { createGate } from '../gate.ts'
import { type CallResult, performCall } from './call.ts'
import { type CallProcess, CallProcesses, type CallProcessOptions } from './call-processes.ts'
import type { Call, CallInputs, CallKind, EgressSettings } from './messages.ts'

interface CallOptions {
  /** Aborted when the caller goes away. */
  signal?: AbortSignal
  /** Where a refresh token is stored that the provider replaces. */
  tokens?: RefreshTokens | undefined
}

export interface CallPool {
  /** Rejects with 429 where too much is under way, and when the caller goes away. A failure of the call is a result. */
  run<K extends CallKind>(
    organizationId: string,
    kind: K,
    input: CallInputs[K],
    options?: CallOptions,
  ): Promise<CallResult<K>>
  /** Starts the warm process, and tells whether the sandbox holds in it. Never rejects. */
  selfTest(): Promise<SelfTestResult>
  close(): Promise<void>
}

export interface CallPoolOptions extends CallProcessOptions {
  /** Asked for with every call: the service learns its own port only when it listens. */
  egress: () => EgressSettings
  /** Calls of one organization at a time. */
  perOrganization: number
  deadlineMs?: number
  beginMs?: number
}

const DEADLINE_MS = 30_000
/** A process that waits begins at once, unless it was stopped or something it was left with keeps it busy. */
const BEGIN_MS = 10_000
const START_MS = 30_000
const WAITING_PER_ORGANIZATION = 60
const WAITING = 500
const WAIT_MS = 30_000
const RETRY_SECONDS = 2

export function createCallPool(options: CallPoolOptions): CallPool {
  const { memoryMb, deadlineMs = DEADLINE_MS, beginMs = BEGIN_MS } = options
  const processes = new CallProcesses(options)
  const gate = createGate({
    total: options.concurrency,
    perKey: options.perOrganization,
    waitingPerKey: WAITING_PER_ORGANIZATION,
    waitingTotal: WAITING,
    waitMs: WAIT_MS,
    refuse,
  })

  const performIn = async <K extends CallKind>(taken: CallProcess, call: Call<K>, asked: CallOptions) => {
    let clean = false
    try {
      const outcome = await performCall(taken, call, {
        egress: options.egress(),
        memoryMb,
        deadlineMs,
        beginMs: taken.ready ? beginMs : START_MS,
        ...asked,
      })
      clean = outcome?.clean === true && !handsOverBlobs(call)
      if (outcome?.complaint) options.warn(outcome.complaint)
      return outcome?.result ?? null
    } finally {
      processes.release(taken, clean)
    }
  }

  /** What never began is begun once more, in another process. */
  const perform = async <K extends CallKind>(
    take: () => CallProcess | Promise<CallProcess>,
    call: Call<K>,
    asked: CallOptions = {},
  ): Promise<CallResult<K>> => {
    const result = (await performIn(await take(), call, asked)) ?? (await performIn(await take(), call, asked))
    if (result === null) options.warn('no executor could be started')
    return result ?? { ok: false, kind: 'internal', message: 'There was no process for this; try again in a moment' }
  }

  return {
    async run(organizationId, kind, input, asked = {}) {
      const { signal } = asked
      try {
        const leave = await gate.enter(organizationId, signal)
        return await perform(() => processes.acquire(organizationId), { kind, input }, asked).finally(leave)
      } catch (error) {
        // Nobody hears this; it only must not count as a fault of the service.
        throw signal?.aborted ? new AppError('invalid_input', 'The caller went away before the answer') : error
      }
    },
    async selfTest() {
      try {
        const result = await perform(() => processes.acquireFresh(), { kind: 'self_test', input: null })
        return result.ok ? result.answer : { ok: false, reason: result.message }
      } catch (error) {
        return { ok: false, reason: (error as Error).message }
      }
    },
    close: () => processes.close(),
  }
}

const refuse = (reason: 'key' | 'total' | 'time', inside: number): AppError => {
  const sentences = {
    key: `${inside} calls of your organization are under way`,
    total: 'Too many calls are under way on this service',
    time: `Nothing became free within ${WAIT_MS / 1000} seconds`,
  }
  return new AppError('too_many_requests', `${sentences[reason]}; try again in ${RETRY_SECONDS} seconds`, {
    'Retry-After': String(RETRY_SECONDS),
  })
}

/** A process that was given the way to the blobs of all handles no bytes after that call. */
const handsOverBlobs = ({ input }: Call): boolean => input !== null && 'outputs' in input && input.outputs !== null
