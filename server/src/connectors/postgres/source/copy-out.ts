/**
 * COPY … TO STDOUT as pages of whole rows. PostgreSQL frames every row; stripping the frames by hand, straight from the
 * socket into the page, costs one copy of the bytes and half the time of a general parser. While a page waits to be
 * taken the socket is paused (backpressure), so a slow reader slows the server down and never fills our memory.
 */
import type { Submittable } from 'pg'
import { ConnectorError } from '../../contract.ts'
import { freeBytes } from '../../free-bytes.ts'
import type { Session, streamOf } from '../shared/session.ts'
import { BinaryRows } from './binary-rows.ts'

export interface CopyOptions {
  pageBytes?: number
  /** The COPY is in binary form and its rows have this many fields. */
  fields?: number
}

export interface Rows {
  bytes: Buffer
  count: number
  /** For whoever is the only reader of the bytes: gives their memory back. */
  release(): void
}

const PAGE_BYTES = 256 * 1024
/** A row is buffered until it is complete, and copied to a larger buffer as it grows. */
const MAX_ROW_BYTES = 128 * 1024 * 1024
const NEWLINE = 10
const frame = {
  copyData: 0x64,
  copyDone: 0x63,
  copyOut: 0x48,
  error: 0x45,
  notice: 0x4e,
  parameter: 0x53,
  notification: 0x41,
}

type DataListener = (chunk: Buffer) => void

interface Wire {
  query(text: string): void
  stream: ReturnType<typeof streamOf>
}

class CopyOut implements Submittable {
  readonly #text: string
  readonly #pageBytes: number
  #stream: Wire['stream'] | null = null
  #passOn: DataListener | null = null
  /** An incomplete frame header, at most four bytes. */
  #head: Buffer = Buffer.alloc(0)
  /** What is left of the current frame, whether it holds row bytes, and where in the page they began. */
  #left = 0
  #isData = false
  #frameAt = 0
  /** Null: the rows are text. */
  readonly #binary: BinaryRows | null
  #page: Buffer
  #used = 0
  /** This many bytes of the page were searched and contain no end of a row. */
  #searched = 0
  #ready: Rows[] = []
  #error: Error | null = null
  #over = false
  #wake: (() => void) | null = null

  constructor(text: string, { pageBytes = PAGE_BYTES, fields }: CopyOptions) {
    this.#text = text
    this.#pageBytes = pageBytes
    this.#binary = fields === undefined ? null : new BinaryRows(fields)
    this.#page = Buffer.allocUnsafeSlow(pageBytes + 65536)
  }

  submit(connection: unknown): void {
    const wire = connection as Wire
    const stream = wire.stream
    this.#stream = stream
    // The driver's own parser gets what follows the rows.
    this.#passOn = stream.listeners('data')[0] as DataListener
    stream.off('data', this.#passOn)
    stream.on('data', this.#take)
    wire.query(this.#text)
  }

  readonly #take = (chunk: Buffer): void => {
    let at = 0
    if (this.#head.length > 0) {
      chunk = Buffer.concat([this.#head, chunk])
      this.#head = Buffer.alloc(0)
    }
    const length = chunk.length
    this.#reserve(length)
    while (at < length) {
      if (this.#left === 0) {
        if (length - at < 5) {
          this.#head = Buffer.from(chunk.subarray(at))
          break
        }
        const code = chunk[at]!
        if (code === frame.copyData) {
          this.#isData = true
          this.#frameAt = this.#used
        } else if (
          code === frame.copyOut ||
          code === frame.notice ||
          code === frame.parameter ||
          code === frame.notification
        ) {
          this.#isData = false
        } else {
          this.#giveBack(chunk.subarray(at))
          return
        }
        this.#left = ((chunk[at + 1]! << 24) | (chunk[at + 2]! << 16) | (chunk[at + 3]! << 8) | chunk[at + 4]!) - 4
        // Only a malicious server sends this; it would be read backwards forever.
        if (this.#left < 0) return void this.#fail('a message with an impossible length')
        at += 5
      }
      const end = Math.min(at + this.#left, length)
      if (this.#isData) {
        chunk.copy(this.#page, this.#used, at, end)
        this.#used += end - at
      }
      this.#left -= end - at
      at = end
      if (this.#left === 0 && this.#isData && this.#binary !== null) {
        const fault = this.#endFrame(this.#binary)
        if (fault !== null) return void this.#fail(fault)
      }
    }
    if (this.#used < this.#pageBytes) return
    if (this.#cut()) {
      this.#stream?.pause()
      this.#wakeUp()
    } else if (this.#used > MAX_ROW_BYTES) this.#fail(`a row of more than ${MAX_ROW_BYTES >> 20} MB`)
  }

  #reserve(bytes: number): void {
    if (this.#used + bytes <= this.#page.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#page.length * 2, this.#used + bytes))
    this.#page.copy(larger, 0, 0, this.#used)
    this.#page = larger
  }

  /** A message of binary rows is one row, and nothing else of it is read. */
  #endFrame(binary: BinaryRows): string | null {
    const fault = binary.take(this.#page, this.#frameAt, this.#used)
    this.#used = binary.end
    return fault
  }

  /** Where the complete rows of the page end. */
  #findEnd(): number {
    if (this.#binary !== null) return this.#binary.end
    const found = this.#page.subarray(this.#searched, this.#used).lastIndexOf(NEWLINE)
    const end = found < 0 ? 0 : this.#searched + found + 1
    this.#searched = end === 0 ? this.#used : 0
    return end
  }

  /** Moves the complete rows out as a page; an incomplete row stays. */
  #cut(): boolean {
    const end = this.#findEnd()
    if (end === 0) return false
    const next = Buffer.allocUnsafeSlow(Math.max(this.#pageBytes + 65536, this.#used - end + 65536))
    this.#page.copy(next, 0, end, this.#used)
    const page = this.#page
    const bytes = page.subarray(0, end)
    this.#page = next
    this.#used -= end
    this.#frameAt -= end
    const count = this.#binary?.cut() ?? countLines(bytes)
    this.#ready.push({ bytes, count, release: () => freeBytes(page) })
    return true
  }

  #fail(what: string): void {
    this.#error = new ConnectorError('source', `The server sent ${what}`)
    this.#over = true
    this.#stream?.destroy()
    this.#wakeUp()
  }

  #giveBack(rest: Buffer): void {
    const stream = this.#stream
    const passOn = this.#passOn
    if (stream === null || passOn === null) return
    this.#stream = null
    stream.off('data', this.#take)
    stream.on('data', passOn)
    if (rest.length > 0) passOn(rest)
    process.nextTick(() => stream.resume())
  }

  handleError(error: Error): void {
    this.#error = error
    this.#over = true
    this.#giveBack(Buffer.alloc(0))
    this.#wakeUp()
  }

  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    if (this.#used > 0) this.#cut()
    if (this.#binary?.over === false)
      this.#error ??= new ConnectorError('source', 'The server sent rows without an end')
    this.#over = true
    this.#wakeUp()
  }

  #wakeUp(): void {
    this.#wake?.()
    this.#wake = null
  }

  async next(): Promise<Rows | null> {
    for (;;) {
      const rows = this.#ready.shift()
      if (rows) return rows
      if (this.#error) throw this.#error
      if (this.#over) return null
      await new Promise<void>((resolve) => {
        this.#wake = resolve
        this.#stream?.resume()
      })
    }
  }
}

function countLines(bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, at + 1)) count += 1
  return count
}

/** If left before its end, the session is unusable, because the server is still sending. Destroy it. */
export async function* copyOut(session: Session, text: string, options: CopyOptions = {}): AsyncGenerator<Rows> {
  const copy = new CopyOut(text, options)
  session.client.query(copy)
  for (let rows = await copy.next(); rows !== null; rows = await copy.next()) yield rows
}
