/**
 * One call in one executor, as the API sees it: sent, watched, and trusted only after its answer was validated. However
 * the executor behaves, this ends: by an answer, its death, the deadline, its memory, the disk, or a caller that disconnects.
 */

import type { RefreshTokens } from '../connectors/authentication/refresh-tokens.ts'
import type { FailureKind } from '../connectors/contract.ts'
import { type Answers, isAnswer, isFailure } from './answers.ts'
import type { Call, CallKind, EgressSettings, FromCall, TokenQuestion } from './messages.ts'
import type { ExecutorEnd, ExecutorProcess } from './process.ts'
import { hasTokens } from './reports.ts'
import { answerTokenQuestion } from './token-answers.ts'

export type CallResult<K extends CallKind> =
  | { ok: true; answer: Answers[K]; body: Buffer }
  | { ok: false; kind: FailureKind; message: string }

export interface CallOutcome<K extends CallKind> {
  result: CallResult<K>
  /** The call ended by itself, in an allowed way. */
  clean: boolean
  /** For the operator. Never contains text from the executor, which may be a tenant's. */
  complaint?: string
}

export interface CallLimits {
  egress: EgressSettings
  memoryMb: number
  /**
   * Counted from the start of the call. The executor ends the call itself at this time, with a better message than
   * ours.
   */
  deadlineMs: number
  /** A waiting process starts at once, unless it was stopped or something from an earlier call keeps it busy. */
  beginMs: number
  /** Where a rotated refresh token is stored. */
  tokens?: RefreshTokens | undefined
  signal?: AbortSignal | undefined
}

/** The part of a process that the pool hands to a call. */
export interface CallExecutor {
  process: ExecutorProcess
  /** Receives its messages. Null: no message is expected. */
  listener: ((message: unknown, body: Buffer) => void) | null
}

/** An executor that did not end the call itself is killed this long after the deadline. */
const GRACE_MS = 2000
const CHECK_MS = 50
/** Two per exchange. A server that refuses every token causes about thirty exchanges before the 401 is returned. */
const MAX_QUESTIONS = 100

/** Null: it never started, so another process may do it. Rejects only by the signal. */
export async function performCall<K extends CallKind>(
  executor: CallExecutor,
  call: Call<K>,
  limits: CallLimits,
): Promise<CallOutcome<K> | null> {
  const { process } = executor
  const { promise, resolve, reject } = Promise.withResolvers<CallOutcome<K> | null>()
  const fail = (kind: FailureKind, message: string, complaint?: string) =>
    resolve({ result: { ok: false, kind, message }, clean: false, ...(complaint && { complaint }) })
  // While a refresh token is being exchanged, killing the process would lose its replacement: it is stored first.
  let exchanging: PromiseWithResolvers<void> | null = null
  const abort = async () => {
    await exchanging?.promise
    reject(limits.signal!.reason)
  }
  let deadline: NodeJS.Timeout | undefined
  let questions = 0
  const begin = setTimeout(() => resolve(null), limits.beginMs)
  const watch = setInterval(() => {
    if (process.residentMb() > limits.memoryMb)
      fail('memory', `This needed more than the allowed ${limits.memoryMb} MB of memory`)
    const full = process.spaceFault()
    if (full !== null) fail('limit', full, 'an executor was ended because the disk is nearly full')
  }, CHECK_MS)
  executor.listener = (message, body) => {
    const { type } = (message ?? {}) as Partial<FromCall>
    if (type === 'begun' && deadline === undefined) {
      clearTimeout(begin)
      deadline = setTimeout(
        () => fail('timeout', `No answer within ${limits.deadlineMs / 1000} seconds`),
        limits.deadlineMs + GRACE_MS,
      )
      return
    }
    if (deadline && limits.tokens && isTokenQuestion(message) && ++questions <= MAX_QUESTIONS)
      return void answerTokenQuestion(limits.tokens, message).then((answer) => {
        process.send(answer)
        if (message.type === 'refresh_end') exchanging?.resolve()
        exchanging = message.type === 'refresh_begin' && 'token' in answer ? Promise.withResolvers() : null
      })
    // Whatever comes after it is unsolicited, even if it came with it.
    executor.listener = null
    const outcome = deadline === undefined ? null : readOutcome(call.kind, message, body)
    if (outcome) resolve(outcome)
    else fail('internal', BROKEN, `an executor gave an invalid answer to a ${call.kind}`)
  }
  void process.ended.then((end) => (deadline === undefined ? resolve(null) : resolve(explainEnd(end, limits))))
  limits.signal?.addEventListener('abort', abort, { once: true })
  try {
    limits.signal?.throwIfAborted()
    process.send({
      type: 'call',
      call,
      egress: limits.egress,
      deadline_ms: limits.deadlineMs,
      keeps_tokens: limits.tokens !== undefined,
    })
    return await promise
  } finally {
    executor.listener = null
    clearTimeout(begin)
    clearTimeout(deadline)
    clearInterval(watch)
    limits.signal?.removeEventListener('abort', abort)
  }
}

const BROKEN = 'What the server or the code sent crashed the process that handled it'

function isTokenQuestion(message: unknown): message is TokenQuestion {
  const { id } = (message ?? {}) as Partial<TokenQuestion>
  return Number.isSafeInteger(id) && hasTokens(message as TokenQuestion)
}

/** Null if it is neither a valid answer nor a valid failure. */
function readOutcome<K extends CallKind>(kind: K, message: unknown, body: Buffer): CallOutcome<K> | null {
  if (isFailure(message)) {
    const { kind, message: text, reusable } = message
    return body.length > 0 ? null : { result: { ok: false, kind, message: text }, clean: reusable }
  }
  const { type, answer, reusable } = (message ?? {}) as Partial<Extract<FromCall, { type: 'answer' }>>
  if (type !== 'answer' || typeof reusable !== 'boolean' || !isAnswer(kind, answer)) return null
  return { result: { ok: true, answer, body }, clean: reusable }
}

function explainEnd<K extends CallKind>({ signal, stderr }: ExecutorEnd, { memoryMb }: CallLimits): CallOutcome<K> {
  const ended = (kind: FailureKind, message: string, complaint: string): CallOutcome<K> => ({
    result: { ok: false, kind, message },
    clean: false,
    complaint,
  })
  if (/heap out of memory|Allocation failed/i.test(stderr))
    return ended('memory', `This needed more than the allowed ${memoryMb} MB of memory`, 'out of memory')
  return ended('internal', BROKEN, `an executor exited in the middle of a call${signal ? ` by ${signal}` : ''}`)
}
