/**
 * One connection: sends a command and checks every packet of its answer before anybody sees it. The protocol is small
 * enough to be spoken here; a general driver would have to be guarded against the same servers, packet by packet, and
 * would make a JavaScript value of every field.
 *
 *   idle ─ query ─ first ─ OK or ERR ─ idle
 *                        ─ column count ─ columns ─ EOF ─ rows … ─ EOF or ERR ─ idle
 *                        ─ request for our rows (LOAD DATA LOCAL, only where one was sent) ─ loading ─ OK or ERR ─ idle
 *
 * A packet that cannot come in the present state ends the connection. A request for a file is answered with the rows of
 * the load that is open, never with a file: there is no code here that opens one.
 */
import type { Socket } from 'node:net'
import { PacketReader, type PacketTaker } from './packet-reader.ts'
import { type ColumnDefinition, Cursor, type Done, readColumn, readDone, readError, ServerError } from './packets.ts'
import { sendPacket, sendQuery } from './sending.ts'
import { Silence } from './silence.ts'
import { Violation } from './violation.ts'

export interface RowTaker {
  columns?(columns: readonly ColumnDefinition[]): void
  /** A row in the text protocol. Its bytes are valid during the call only. */
  row(bytes: Buffer, at: number, end: number): void
}

/** The data of LOAD DATA LOCAL on its way to the server. */
export interface LocalRows {
  /** Resolves when more may be written. `onSent` is called when the bytes may be overwritten. */
  write(bytes: Buffer, onSent?: () => void): Promise<void>
  /** Resolves when the server has taken all of it. */
  finish(): Promise<Done>
}

const SMALL = 64 * 1024
/** A packet of rows. Every server takes this much; a longer one would have to fit its max_allowed_packet. */
const MAX_ROW_PACKET = 512 * 1024
const PACKET_TOO_LARGE = 1153
const MAX_ROW_BYTES = 128 * 1024 * 1024
const MAX_COLUMNS = 4096
const EOF_LENGTH = 9
const COM_QUIT = 1
const MORE_RESULTS = 8

type State =
  | 'login'
  | 'idle'
  | 'first'
  | 'columns'
  | 'end of columns'
  | 'rows'
  | 'load expected'
  | 'loading'
  | 'loaded'
  | 'gone'

interface Question {
  taker: RowTaker | null
  /** The name that a request for local rows has to give; null if none may come. */
  local: string | null
  /** At most this many bytes of rows, where they are kept in memory. */
  mostBytes: number
  resolve(done: Done): void
  reject(error: Error): void
}

export interface ConnectionOptions {
  /** The error for a server that breaks the protocol. */
  violation(violation: Violation): Error
  /** The error for one that owes an answer for this long. */
  silence(seconds: number): Error
}

const lost = (): Error => Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' })

export class Connection implements PacketTaker {
  readonly #options: ConnectionOptions
  readonly #reader = new PacketReader(this)
  #socket: Socket
  #state: State = 'login'
  #question: Question | null = null
  #columnsLeft = 0
  #columns: ColumnDefinition[] = []
  #rowBytes = 0
  #sequence = 0
  #opened: PromiseWithResolvers<void> | null = null
  #drained: PromiseWithResolvers<void> | null = null
  /** Packets of the login that nobody has read yet. */
  readonly #waiting: Buffer[] = []
  #reading: PromiseWithResolvers<Buffer> | null = null
  readonly #silence = new Silence((seconds) => this.fail(this.#options.silence(seconds)))
  /** Why the connection ended. */
  failure: Error | null = null
  limit = SMALL
  /** The server's max_allowed_packet. */
  mostSent = Number.POSITIVE_INFINITY

  constructor(socket: Socket, options: ConnectionOptions) {
    this.#options = options
    this.#socket = socket
    this.#attach(socket)
  }

  #attach(socket: Socket): void {
    socket.on('data', this.#take)
    socket.on('error', this.#onError)
    socket.on('close', this.#onClose)
    socket.on('drain', () => this.#drained?.resolve())
  }

  readonly #take = (chunk: Buffer): void => {
    if (this.failure !== null) return
    this.#silence.heard()
    try {
      this.#reader.feed(chunk)
    } catch (error) {
      if (error instanceof Violation)
        this.fail(this.#options.violation(this.#state === 'login' ? withStart(error, chunk) : error))
      else this.fail(error as Error)
    }
  }
  readonly #onError = (error: Error): void => this.fail(error)
  readonly #onClose = (): void => this.fail(lost())

  /** Ends the connection; everything that waits for it fails. */
  fail(error: Error): void {
    if (this.failure !== null) return
    this.failure = error
    this.#state = 'gone'
    this.#silence.stop()
    this.#socket.destroy()
    const question = this.#question
    this.#question = null
    this.#reading?.reject(error)
    this.#opened?.reject(error)
    this.#drained?.reject(error)
    question?.reject(error)
  }

  // Login: packets one after another, in the order of whoever asks for them.

  /** The next packet of the login. */
  async nextPacket(): Promise<Buffer> {
    const packet = this.#waiting.shift()
    if (packet !== undefined) return packet
    if (this.failure !== null) throw this.failure
    this.#reading = Promise.withResolvers<Buffer>()
    return this.#reading.promise
  }

  #takeLogin(bytes: Buffer, at: number, end: number): void {
    // What follows the last packet without being asked belongs to nobody; an honest server sends at most two in a row.
    if (this.#waiting.length >= 2) throw new Violation('it goes on with the login without waiting for an answer')
    const packet = Buffer.from(bytes.subarray(at, end))
    const reading = this.#reading
    this.#reading = null
    if (reading === null) this.#waiting.push(packet)
    else reading.resolve(packet)
  }

  send(payload: Buffer): void {
    sendPacket(this.#socket, payload, this.#reader.sequence)
    this.#reader.expectSequence(this.#reader.sequence + 1)
  }

  /** Gives the socket away for TLS. Bytes that came before it were not encrypted, possibly from a man in the middle. */
  detach(): Socket {
    if (this.#reader.holds || this.#waiting.length > 0)
      throw new Violation('it went on without TLS after TLS was agreed')
    this.#socket.off('data', this.#take).off('error', this.#onError).off('close', this.#onClose)
    this.#socket.pause()
    return this.#socket
  }

  attach(socket: Socket): void {
    this.#socket = socket
    this.#attach(socket)
  }

  loggedIn(): void {
    if (this.#waiting.length > 0 || this.#reader.holds) throw new Violation('it sent more after the login was complete')
    this.#state = 'idle'
    this.limit = SMALL
  }

  // Commands.

  /** Asks a query; its rows go to the taker. `silenceMs`: how long the server may be silent; null: for ever. */
  query(
    text: string,
    options: { taker?: RowTaker; mostBytes?: number; silenceMs?: number | null } = {},
  ): Promise<Done> {
    const { taker = null, mostBytes = Number.POSITIVE_INFINITY, silenceMs = null } = options
    return this.#ask(text, { taker, local: null, mostBytes }, silenceMs)
  }

  /** Sends LOAD DATA LOCAL INFILE '<name>' and waits until the server asks for the rows. */
  async load(text: string, name: string): Promise<LocalRows> {
    const opened = Promise.withResolvers<void>()
    this.#opened = opened
    const done = this.#ask(text, { taker: null, local: name, mostBytes: 0 }, null)
    // Reported by whoever writes next.
    done.catch((error: Error) => {
      opened.reject(error)
      this.#drained?.reject(error)
    })
    await opened.promise
    return { write: (bytes, onSent) => this.#sendRows(bytes, done, onSent), finish: () => this.#finishRows(done) }
  }

  #ask(text: string, question: Omit<Question, 'resolve' | 'reject'>, silenceMs: number | null): Promise<Done> {
    if (this.failure !== null) return Promise.reject(this.failure)
    if (this.#state !== 'idle') return Promise.reject(new Error('the connection is in the middle of another query'))
    // The server would hang up, often before its error can be read.
    const length = Buffer.byteLength(text)
    if (length >= this.mostSent)
      return Promise.reject(
        new ServerError(
          PACKET_TOO_LARGE,
          '08S01',
          `A statement of ${length} bytes is longer than its max_allowed_packet, ${this.mostSent} bytes`,
        ),
      )
    return new Promise((resolve, reject) => {
      this.#question = { ...question, resolve, reject }
      this.#state = 'first'
      this.limit = SMALL
      this.#rowBytes = 0
      this.#reader.expectSequence(sendQuery(this.#socket, text))
      this.#silence.watch(silenceMs)
    })
  }

  async #sendRows(bytes: Buffer, done: Promise<Done>, onSent?: () => void): Promise<void> {
    const most = Math.min(MAX_ROW_PACKET, this.mostSent)
    for (let at = 0; at < bytes.length; at += most) {
      // The server reports an error in the middle only where it gives up; then the rest is of no use.
      if (this.#state !== 'loading') return void (await done)
      const end = Math.min(at + most, bytes.length)
      const free = sendPacket(
        this.#socket,
        bytes.subarray(at, end),
        this.#sequence++,
        end === bytes.length ? onSent : undefined,
      )
      if (free) continue
      this.#drained = Promise.withResolvers<void>()
      try {
        await this.#drained.promise
      } finally {
        this.#drained = null
      }
    }
  }

  async #finishRows(done: Promise<Done>): Promise<Done> {
    if (this.#state === 'loading') {
      sendPacket(this.#socket, Buffer.alloc(0), this.#sequence)
      this.#reader.expectSequence(this.#sequence + 1)
      this.#state = 'loaded'
    }
    return done
  }

  // Answers.

  take(bytes: Buffer, at: number, end: number): void {
    if (this.#state === 'rows') return void this.#takeRow(bytes, at, end)
    if (this.#state === 'login') return void this.#takeLogin(bytes, at, end)
    if (at === end) throw new Violation('it sent an empty packet')
    switch (this.#state) {
      case 'first':
        return void this.#takeFirst(bytes, at, end)
      case 'columns':
        return void this.#takeColumn(bytes, at, end)
      case 'end of columns':
        return void this.#takeEndOfColumns(bytes, at, end)
      case 'loading':
        // Without the end of the rows it cannot have taken them all.
        if (bytes[at] !== 0xff) throw new Violation('it confirmed rows before it had them all')
        throw readError(bytes, at, end)
      case 'loaded':
        return void this.#takeConfirmation(bytes, at, end)
      default:
        // A server that shuts down, or ends an idle session, says so.
        if (bytes[at] === 0xff) throw readError(bytes, at, end)
        throw new Violation('it sent a packet without a query')
    }
  }

  #takeFirst(bytes: Buffer, at: number, end: number): void {
    const first = bytes[at]!
    const { local } = this.#question!
    if (first === 0xff) return void this.#endWithError(bytes, at, end)
    if (first === 0xfb) return void this.#takeRequest(bytes, at, end)
    if (local !== null) throw new Violation('it does not ask for the rows of LOAD DATA LOCAL')
    if (first === 0) return void this.#end(readDone(bytes, at, end))
    const cursor = new Cursor(bytes, at, end, 'column count')
    const count = cursor.number()
    if (count < 1 || count > MAX_COLUMNS || cursor.left > 0) throw new Violation(`it announced ${count} columns`)
    if (this.#question!.taker === null) throw new Violation('it answered a statement with rows')
    this.#columnsLeft = count
    this.#columns = []
    this.#state = 'columns'
  }

  /** LOAD DATA LOCAL: the server names the file that it wants. Only our own name, only for our own statement. */
  #takeRequest(bytes: Buffer, at: number, end: number): void {
    const { local } = this.#question!
    const wanted = bytes.toString('utf8', at + 1, Math.min(end, at + 1 + 256))
    if (local === null || wanted !== local)
      throw new Violation(
        `it asked for the file ${JSON.stringify(wanted)} of this machine, which is never sent`,
        'must not be trusted',
      )
    this.#sequence = this.#reader.sequence
    this.#state = 'loading'
    // An error in the middle of the rows follows whichever of our packets the server has read by then.
    this.#reader.expectSequence(null)
    this.#opened?.resolve()
    this.#opened = null
  }

  #takeColumn(bytes: Buffer, at: number, end: number): void {
    this.#columns.push(readColumn(bytes, at, end))
    this.#columnsLeft -= 1
    if (this.#columnsLeft === 0) this.#state = 'end of columns'
  }

  #takeEndOfColumns(bytes: Buffer, at: number, end: number): void {
    if (bytes[at] === 0xff) return void this.#endWithError(bytes, at, end)
    if (bytes[at] !== 0xfe || end - at >= EOF_LENGTH) throw new Violation('its columns have no end')
    this.#state = 'rows'
    this.limit = Math.min(MAX_ROW_BYTES, this.#question!.mostBytes)
    this.#question!.taker?.columns?.(this.#columns)
  }

  #takeRow(bytes: Buffer, at: number, end: number): void {
    const first = bytes[at]!
    if (end - at < EOF_LENGTH && first === 0xfe) {
      const cursor = new Cursor(bytes, at + 1, end, 'end of rows')
      const warnings = cursor.integer(2)
      return void this.#end({ affectedRows: 0, status: cursor.integer(2), warnings, info: '' })
    }
    if (first === 0xff) return void this.#endWithError(bytes, at, end)
    const question = this.#question!
    this.#rowBytes += end - at
    if (this.#rowBytes > question.mostBytes)
      throw new Violation(`it answered one query with more than ${question.mostBytes} bytes`, 'sends too much')
    question.taker!.row(bytes, at, end)
  }

  #takeConfirmation(bytes: Buffer, at: number, end: number): void {
    if (bytes[at] === 0xff) return void this.#endWithError(bytes, at, end)
    if (bytes[at] !== 0) throw new Violation('its answer to LOAD DATA is neither OK nor an error')
    this.#end(readDone(bytes, at, end))
  }

  #end(done: Done): void {
    if ((done.status & MORE_RESULTS) !== 0) throw new Violation('it announced a second result, which nobody asked for')
    this.#settle()?.resolve(done)
  }

  #endWithError(bytes: Buffer, at: number, end: number): void {
    const error = readError(bytes, at, end)
    this.#settle()?.reject(error)
  }

  #settle(): Question | null {
    const question = this.#question
    this.#question = null
    this.#state = 'idle'
    this.limit = SMALL
    this.#silence.stop()
    return question
  }

  /** While rows wait to be taken, the server has to wait, too. */
  pause(): void {
    this.#silence.pause()
    this.#socket.pause()
  }

  resume(): void {
    this.#silence.resume()
    this.#socket.resume()
  }

  /** Says goodbye. The server closes the connection. */
  async quit(): Promise<void> {
    if (this.failure !== null) return
    const socket = this.#socket
    this.#silence.stop()
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    this.failure = lost()
    this.#state = 'gone'
    sendPacket(this.#socket, Buffer.from([COM_QUIT]), 0)
    socket.end()
    socket.resume()
    const late = setTimeout(() => socket.destroy(), 2000)
    await closed
    clearTimeout(late)
  }
}

/** Helps people recognise what they connected to: SSH, PostgreSQL, a web server. */
function withStart({ message, verdict }: Violation, chunk: Buffer): Violation {
  return new Violation(`${message}; it began with ${JSON.stringify(chunk.toString('latin1', 0, 20))}`, verdict)
}
