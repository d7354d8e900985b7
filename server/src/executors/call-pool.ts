/**
 * The API's own executors, for interactive calls: checks, stream listings, previews, validations. They are separate
 * from the executors of runs, so that neither ever waits for the other; a process handles one call at a time.
 *
 * A process is reused, by its own organization, after a clean end: the call ended by itself, with an answer or a
 * failure that passes answers.ts, and the process neither opened DuckDB nor received blob store credentials. After a
 * deadline, excessive memory, a disconnected caller, an impossible answer or an unsolicited message, the whole process
 * group is killed.
 */
import type { SelfTestResult } from '../cell/self-test.ts'
import type { RefreshTokens } from '../connectors/authentication/refresh-tokens.ts'
import { AppError } from '../errors.ts'
import { createGate } from '../gate.ts'
import { type CallResult, performCall } from './call.ts'
import { type CallProcess, CallProcesses, type CallProcessOptions } from './call-processes.ts'
import type { Call, CallInputs, CallKind, EgressSettings } from './messages.ts'

interface CallOptions {
  /** Aborted when the caller disconnects. */
  signal?: AbortSignal
  /** Where a rotated refresh token is stored. */
  tokens?: RefreshTokens | undefined
}

export interface CallPool {
  /**
   * Rejects with 429 if too much is in progress, and when the caller disconnects. A failure of the call is a result.
   */
  run<K extends CallKind>(
    organizationId: string,
    kind: K,
    input: CallInputs[K],
    options?: CallOptions,
  ): Promise<CallResult<K>>
  /** Starts the warm process and reports whether the sandbox works in it. Never rejects. */
  selfTest(): Promise<SelfTestResult>
  close(): Promise<void>
}

export interface CallPoolOptions extends CallProcessOptions {
  /** Read for every call: the service learns its own port only when it listens. */
  egress: () => EgressSettings
  /** Concurrent calls of one organization. */
  perOrganization: number
  deadlineMs?: number
  beginMs?: number
}

const DEADLINE_MS = 30_000
/** A waiting process starts at once, unless it was stopped or something from an earlier call keeps it busy. */
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
      clean = outcome?.clean === true && !givesBlobAccess(call)
      if (outcome?.complaint && !processes.closed) options.warn(outcome.complaint)
      return outcome?.result ?? null
    } finally {
      processes.release(taken, clean)
    }
  }

  /** A call that never started is retried once, in another process. */
  const perform = async <K extends CallKind>(
    take: () => CallProcess | Promise<CallProcess>,
    call: Call<K>,
    asked: CallOptions = {},
  ): Promise<CallResult<K>> => {
    const result = (await performIn(await take(), call, asked)) ?? (await performIn(await take(), call, asked))
    if (result === null) options.warn('no executor could be started')
    return result ?? { ok: false, kind: 'internal', message: 'No process is available for this; try again in a moment' }
  }

  return {
    async run(organizationId, kind, input, asked = {}) {
      const { signal } = asked
      try {
        const leave = await gate.enter(organizationId, signal)
        return await perform(() => processes.acquire(organizationId), { kind, input }, asked).finally(leave)
      } catch (error) {
        // The caller is gone; this only prevents it from being counted as a server error.
        throw signal?.aborted ? new AppError('invalid_input', 'The caller disconnected before the answer') : error
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
    key: `${inside} calls of your organization are in progress`,
    total: 'Too many calls are in progress on this service',
    time: `Nothing became free within ${WAIT_MS / 1000} seconds`,
  }
  return new AppError('too_many_requests', `${sentences[reason]}; try again in ${RETRY_SECONDS} seconds`, {
    'Retry-After': String(RETRY_SECONDS),
  })
}

/**
 * A process that received blob store credentials, which open the blobs of all organizations, is not reused after that
 * call.
 */
const givesBlobAccess = ({ input }: Call): boolean =>
  input !== null && ('blobs' in input || ('outputs' in input && input.outputs !== null))
