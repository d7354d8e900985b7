/**
 * One call of a cell, from the job to its end. The states:
 *
 *   reading ──► done ──► ended     success: the frame DONE, then the channel closes
 *    │  ▲
 *    │  └── working                a page is with its consumer; nothing is read meanwhile (backpressure)
 *    └───── answering              the cell waits for an answer; any byte from it meanwhile violates the protocol
 *
 * Any other end is a failure, and the first one counts: a limit, a protocol violation, an abort, an error that the cell
 * reports, or the exit of its process. After that nothing more is read, the process is killed and its HTTP requests are
 * aborted.
 */
import type { Socket } from 'node:net'
import type { Json } from '../json/json.ts'
import { CellFailure, explainExit, explainReport, limitReached, NetworkMissing, protocolBroken } from './failure.ts'
import type { LogLevel } from './frames.ts'
import {
  encodeFrame,
  type Frame,
  FrameDecoder,
  HOST_KINDS,
  type HttpRequest,
  PreviewTooLarge,
  ProtocolError,
  RecordTooDeep,
} from './frames.ts'
import type { CellLimits } from './limits.ts'
import type { CellExit, ZygoteProcess } from './zygote-process.ts'

export interface CellPage {
  records: number
  bytes: Buffer
  /** The author's `self.state` right after the last record of this page; absent if it did not change. */
  state: Json | undefined
}

export interface CellHandlers {
  /** The cell continues when this returns. Without it a page violates the protocol: only runs read pages. */
  page?(page: CellPage): Promise<void> | undefined | void
  /**
   * Records as JSON text separated by commas, limited to this many bytes. Without it a preview violates the protocol.
   */
  preview?: { max_bytes: number; take(records: number, bytes: Buffer): void }
  /** One line, without line breaks and control characters. */
  log?(level: LogLevel, line: string): void
  /** The answer frame. The signal is aborted when the call ends. */
  http?(requests: HttpRequest[], signal: AbortSignal): Promise<Buffer>
  /** Returns the params of the authentication, when the author reads them. */
  secrets?(): Json
  /** Replaces known secrets in all text: log lines, errors, tracebacks. */
  redact?(text: string): string
  signal?: AbortSignal
}

export interface CellOutcome {
  result: Json
  /** How the process exited; it may take a moment longer than the result. */
  exit: Promise<CellExit>
}

/** How long a process may take to exit after its last frame before it is killed; long, because machines can be busy. */
const LINGER_MS = 10_000

export function runCall(
  zygote: ZygoteProcess,
  job: Json,
  handlers: CellHandlers,
  limits: CellLimits,
): Promise<CellOutcome> {
  return new Call(zygote, handlers, limits).run(job)
}

type CallState = 'reading' | 'working' | 'answering' | 'done' | 'ended'

class Call {
  readonly #zygote: ZygoteProcess
  readonly #handlers: CellHandlers
  readonly #limits: CellLimits
  readonly #decoder: FrameDecoder
  readonly #frames: Frame[] = []
  readonly #outcome = Promise.withResolvers<CellOutcome>()
  readonly #aborter = new AbortController()
  #socket!: Socket
  #id = ''
  #exit!: Promise<CellExit>
  #state: CallState = 'reading'
  #closed = false
  #result: Json = null
  #records = 0
  #bytes = 0
  #logBytes = 0

  constructor(zygote: ZygoteProcess, handlers: CellHandlers, limits: CellLimits) {
    this.#zygote = zygote
    this.#handlers = handlers
    this.#limits = limits
    this.#decoder = new FrameDecoder({
      pages: handlers.page !== undefined,
      preview_bytes: handlers.preview?.max_bytes ?? 0,
    })
  }

  async run(job: Json): Promise<CellOutcome> {
    const { signal } = this.#handlers
    if (signal?.aborted) throw signal.reason
    const abort = () => this.#fail(signal?.reason)
    const timer = setTimeout(
      () => this.#fail(limitReached('wall_seconds', this.#limits.wall_seconds)),
      Math.min(this.#limits.wall_seconds * 1000, 2 ** 31 - 1),
    )
    signal?.addEventListener('abort', abort, { once: true })
    try {
      const opened = this.#zygote.open((bytes) => this.#take(bytes))
      this.#id = opened.id
      this.#socket = opened.socket
      this.#exit = opened.exit
      this.#socket.once('close', () => this.#close())
      this.#socket.write(encodeFrame(HOST_KINDS.job, Buffer.from(JSON.stringify(job))))
      return await this.#outcome.promise
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      this.#aborter.abort()
    }
  }

  #is(...states: CallState[]): boolean {
    return states.includes(this.#state)
  }

  /** Returns whether to continue reading. */
  #take(bytes: Buffer): boolean {
    if (this.#state === 'ended') return false
    if (this.#state === 'answering') {
      this.#fail(protocolBroken('it sent more while it was waiting for an answer'))
      return false
    }
    try {
      this.#decoder.push(bytes, (frame) => this.#frames.push(frame))
    } catch (error) {
      this.#fail(explainBreach(error))
      return false
    }
    if (this.#frames.length === 0) return true
    this.#work()
    // While an answer is prepared, reading continues only to detect a cell that does not wait for it.
    return this.#state !== 'working'
  }

  /** Handles decoded frames; pages are awaited one by one. */
  #work(): void {
    while (this.#frames.length > 0 && this.#state !== 'ended') {
      const frame = this.#frames.shift()!
      try {
        if (frame.kind === 'http' || frame.kind === 'secrets') {
          this.#answer(frame)
          return
        }
        const waiting = this.#handle(frame)
        if (waiting) {
          this.#state = 'working'
          waiting.then(
            () => this.#resume(),
            (error) => this.#fail(error),
          )
          return
        }
      } catch (error) {
        this.#fail(error)
      }
    }
  }

  #resume(): void {
    if (this.#state !== 'working') return
    this.#state = 'reading'
    this.#work()
    if (this.#is('working', 'ended')) return
    if (this.#closed) this.#close()
    else this.#socket.resume()
  }

  #handle(frame: Exclude<Frame, { kind: 'http' | 'secrets' }>): Promise<void> | undefined {
    switch (frame.kind) {
      case 'page':
        return this.#page(frame)
      case 'log':
        this.#log(frame.level, frame.text)
        return undefined
      case 'preview':
        this.#handlers.preview?.take(frame.records, frame.bytes)
        return undefined
      case 'done':
        this.#result = frame.result
        this.#state = 'done'
        // A cell that keeps computing after its last frame is killed.
        setTimeout(() => this.#fail(protocolBroken('it did not exit after its last frame')), LINGER_MS).unref()
        return undefined
      case 'error': {
        const report = { ...frame.error }
        for (const key of ['text', 'traceback', 'type'] as const) report[key] = this.#clean(report[key])
        throw explainReport(report, this.#limits)
      }
    }
  }

  #page(frame: Extract<Frame, { kind: 'page' }>): Promise<void> | undefined {
    this.#records += frame.records
    this.#bytes += frame.size
    if (this.#records > this.#limits.max_records) throw limitReached('max_records', this.#limits.max_records)
    if (this.#bytes > this.#limits.max_bytes) throw limitReached('max_bytes', this.#limits.max_bytes)
    const { records, bytes, state } = frame
    return this.#handlers.page?.({ records, bytes, state }) ?? undefined
  }

  #log(level: LogLevel, text: string): void {
    this.#logBytes += text.length + 1
    if (this.#logBytes > this.#limits.log_bytes) throw limitReached('log_bytes', this.#limits.log_bytes)
    if (!this.#handlers.log) return
    for (const line of this.#clean(text).split('\n')) this.#handlers.log(level, line)
  }

  #clean(text: string): string {
    return escapeControls(this.#handlers.redact?.(text) ?? text)
  }

  #answer(frame: Extract<Frame, { kind: 'http' | 'secrets' }>): void {
    if (this.#frames.length > 0 || this.#decoder.pending) {
      throw protocolBroken('it sent more while it was waiting for an answer')
    }
    this.#state = 'answering'
    this.#makeAnswer(frame).then(
      (answer) => {
        if (this.#state !== 'answering') return
        this.#state = 'reading'
        this.#socket.write(answer)
      },
      (error) => this.#fail(error),
    )
  }

  #makeAnswer(frame: Extract<Frame, { kind: 'http' | 'secrets' }>): Promise<Buffer> {
    if (frame.kind === 'http') {
      return this.#handlers.http?.(frame.requests, this.#aborter.signal) ?? Promise.reject(new NetworkMissing())
    }
    const secrets = Buffer.from(JSON.stringify(this.#handlers.secrets?.() ?? {}))
    return Promise.resolve(encodeFrame(HOST_KINDS.answer, secrets))
  }

  #close(): void {
    this.#closed = true
    if (this.#state === 'ended' || this.#state === 'working') return
    if (this.#state === 'done') {
      this.#state = 'ended'
      this.#outcome.resolve({ result: this.#result, exit: this.#exit })
      // A process that closed its channel may still be running.
      const linger = setTimeout(() => this.#zygote.kill(this.#id), LINGER_MS)
      linger.unref()
      this.#exit.then(() => clearTimeout(linger))
      return
    }
    this.#explainEnd()
  }

  /**
   * The channel closed without a last frame. The exit status of the process tells why; a process that is still running
   * closed it on purpose.
   */
  #explainEnd(): void {
    const kill = setTimeout(() => this.#fail(protocolBroken('it closed its channel')), LINGER_MS)
    this.#exit.then((exit) => {
      clearTimeout(kill)
      this.#fail(
        this.#decoder.pending && exit.code === 0 && exit.signal === null
          ? protocolBroken('it ended within a frame')
          : explainExit(exit, this.#limits),
      )
    })
  }

  #fail(error: unknown): void {
    if (this.#state === 'ended') return
    this.#state = 'ended'
    this.#frames.length = 0
    this.#aborter.abort()
    this.#zygote.kill(this.#id)
    this.#socket.destroy()
    this.#outcome.reject(error)
  }
}

function explainBreach(error: unknown): unknown {
  if (error instanceof RecordTooDeep) return new CellFailure('source', error.message)
  if (error instanceof PreviewTooLarge) return new CellFailure('limit', error.message)
  return error instanceof ProtocolError ? protocolBroken(error.message) : error
}

/** Keeps line breaks and tabs; characters that could move a cursor or forge another log line are escaped. */
function escapeControls(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replace(
      /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
      (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
    )
}
