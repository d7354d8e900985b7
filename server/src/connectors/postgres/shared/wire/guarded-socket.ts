/**
 * The socket as the driver sees it: what it writes goes straight to the server, what the server sends has passed the
 * guard. The driver accepts any object with the methods of a socket. A Duplex would not copy anything either, but would
 * add two more queues per chunk.
 */
import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { freeBytes } from '../../../free-bytes.ts'
import type { Question } from './conversation.ts'
import { Violation } from './frames.ts'
import { WireGuard } from './guard.ts'
import { Patience, SETTLE_MS } from './patience.ts'

interface GuardedSocketOptions {
  /** The errors that end the connection: the server broke the protocol, or is silent while it owes an answer. */
  violation(violation: Violation): Error
  silence(seconds: number): Error
  /** How long the server may be silent while it owes an answer. Null: forever. */
  silenceMs: number | null
  settleMs?: number
}

export class GuardedSocket extends EventEmitter {
  readonly #socket: Socket
  readonly #options: GuardedSocketOptions
  readonly #guard = new WireGuard((bytes) => this.emit('data', bytes))
  readonly #patience: Patience
  #silenceMs: number | null
  /** Why the connection was ended. The driver reports it only to queries that are waiting at that moment. */
  failure: Error | null = null

  /** `socket` is connected, and encrypted if required. */
  constructor(socket: Socket, options: GuardedSocketOptions) {
    super()
    this.#socket = socket
    this.#options = options
    this.#silenceMs = options.silenceMs
    this.#patience = new Patience((waitedMs) => this.#fail(options.silence(Math.round(waitedMs / 1000))))
    socket.on('data', (chunk: Buffer) => this.#take(chunk))
    socket.on('drain', () => this.emit('drain'))
    socket.on('end', () => this.emit('end'))
    socket.on('error', (error) => this.emit('error', error))
    socket.on('close', () => {
      this.#patience.stop()
      this.emit('close')
    })
    this.#wait()
  }

  #take(chunk: Buffer): void {
    if (this.#socket.destroyed) return
    const { conversation } = this.#guard
    const before = conversation.progress
    const rowsOnly = conversation.givesRows
    try {
      this.#guard.take(chunk)
    } catch (error) {
      const violation = error instanceof Violation ? error : misunderstood(error as Error)
      return void this.#fail(this.#options.violation(conversation.begun ? violation : withStart(violation, chunk)))
    }
    // Whoever reads rows has copied them by now. Of all other messages the driver may keep parts.
    if (rowsOnly && conversation.givesRows) freeBytes(chunk)
    // Notices are not progress: a server cannot buy time with them.
    if (conversation.givesRows || conversation.progress !== before) this.#wait()
  }

  #wait(): void {
    const { owes } = this.#guard.conversation
    if (owes === 'nothing') this.#patience.wait(null)
    else this.#patience.wait(owes === 'settling' ? (this.#options.settleMs ?? SETTLE_MS) : this.#silenceMs)
  }

  #fail(error: Error): void {
    this.failure = error
    this.#socket.destroy(error)
  }

  /** Sets how long the server may take for an answer from now on. */
  allowSilence(ms: number | null): void {
    this.#silenceMs = ms
    this.#wait()
  }

  /**
   * The driver calls this to connect; egress already did. If the connection broke since then, nothing has reported it
   * yet.
   */
  connect(): this {
    process.nextTick(() => this.emit(this.#socket.destroyed ? 'close' : 'connect'))
    // It was paused after the answer to the request for TLS.
    this.#socket.resume()
    return this
  }

  get writable(): boolean {
    return this.#socket.writable
  }

  get destroyed(): boolean {
    return this.#socket.destroyed
  }

  write(message: Buffer, done?: () => void): boolean {
    const question = readQuestion(message)
    if (question !== null) this.#guard.conversation.begin(question)
    this.#wait()
    return this.#socket.write(message, done)
  }

  cork(): void {
    this.#socket.cork()
  }

  uncork(): void {
    this.#socket.uncork()
  }

  pause(): this {
    this.#patience.pause()
    this.#socket.pause()
    return this
  }

  resume(): this {
    this.#patience.resume()
    this.#socket.resume()
    return this
  }

  end(): this {
    this.#socket.end()
    return this
  }

  destroy(error?: Error): this {
    this.#socket.destroy(error)
    return this
  }

  setNoDelay(on?: boolean): this {
    this.#socket.setNoDelay(on)
    return this
  }

  setKeepAlive(on?: boolean, delayMs?: number): this {
    this.#socket.setKeepAlive(on, delayMs)
    return this
  }

  ref(): this {
    this.#socket.ref()
    return this
  }

  unref(): this {
    this.#socket.unref()
    return this
  }
}

/** Whatever passes the guard but confuses the driver must not end the process. */
function misunderstood(error: Error): Violation {
  return new Violation(`its answer cannot be understood (${error.message})`)
}

/** Helps people recognise what they connected to: SSH, MySQL, a web server. */
function withStart({ message, verdict }: Violation, chunk: Buffer): Violation {
  return new Violation(`${message}; it began with ${JSON.stringify(chunk.toString('latin1', 0, 20))}`, verdict)
}

const QUERY = 0x51
const PARSE = 0x50
const COPY_DONE = 0x63

/**
 * Which query a message starts. The driver writes each message in one call. COPY statements are only sent by us, so
 * their form is known; COPY rows are not messages and are not parsed here.
 */
export function readQuestion(message: Buffer): Question | null {
  if (message.length < 5 || message.readUInt32BE(1) !== message.length - 1) return null
  if (message[0] === COPY_DONE) return 'end of rows'
  if (message[0] === PARSE) return 'extended'
  if (message[0] !== QUERY) return null
  if (message.toString('latin1', 5, 10) !== 'COPY ') return 'simple'
  const end = message.toString('latin1', Math.max(message.length - 30, 5))
  if (end.endsWith(' FROM STDIN\0')) return 'copy in'
  if (end.endsWith(' FROM STDIN (FORMAT binary)\0')) return 'binary copy in'
  return end.endsWith(' TO STDOUT (FORMAT binary)\0') ? 'binary copy out' : 'copy out'
}
