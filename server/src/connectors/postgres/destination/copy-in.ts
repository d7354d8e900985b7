/**
 * COPY … FROM STDIN. `write` resolves when more may be written (backpressure). The server has the rows only after
 * `finish`, and they are visible only after the surrounding transaction.
 */
import type { Submittable } from 'pg'
import { copyHeader, copyTrailer } from '../shared/native-rows.ts'
import type { Session, streamOf } from '../shared/session.ts'

interface Wire {
  query(text: string): void
  stream: ReturnType<typeof streamOf>
}

const COPY_DATA = 0x64
const copyDone = Buffer.from([0x63, 0, 0, 0, 4])

function headOf(bytes: Buffer): Buffer {
  const head = Buffer.allocUnsafe(5)
  head[0] = COPY_DATA
  head.writeUInt32BE(bytes.length + 4, 1)
  return head
}

export class CopyIn implements Submittable {
  readonly #text: string
  /** Rows in binary form have something in front of them and something behind. */
  readonly #binary: boolean
  #begun = false
  #wire: Wire | null = null
  #error: Error | null = null
  #count = 0
  readonly #opened = Promise.withResolvers<void>()
  readonly #finished = Promise.withResolvers<number>()
  #drained: PromiseWithResolvers<void> | null = null

  constructor(text: string, binary: boolean) {
    this.#text = text
    this.#binary = binary
    // The next write or finish reports the error; until then it must not end the process.
    this.#opened.promise.catch(() => {})
    this.#finished.promise.catch(() => {})
  }

  submit(connection: unknown): void {
    this.#wire = connection as Wire
    this.#wire.query(this.#text)
  }

  handleCopyInResponse(): void {
    this.#opened.resolve()
  }

  handleError(error: Error): void {
    this.#error = error
    this.#opened.reject(error)
    this.#finished.reject(error)
    this.#drained?.reject(error)
  }

  handleCommandComplete(message: { text?: string }): void {
    this.#count = Number(/COPY (\d+)/.exec(message.text ?? '')?.[1] ?? 0)
  }

  handleReadyForQuery(): void {
    this.#finished.resolve(this.#count)
  }

  /** `onSent` is called when the bytes have left and may be overwritten. */
  async write(bytes: Buffer, onSent?: () => void): Promise<void> {
    await this.#opened.promise
    if (this.#error) throw this.#error
    const stream = this.#wire!.stream
    stream.cork()
    this.#begin(stream)
    stream.write(headOf(bytes))
    const free = stream.write(bytes, onSent)
    stream.uncork()
    if (free) return
    const drained = Promise.withResolvers<void>()
    this.#drained = drained
    stream.once('drain', drained.resolve)
    try {
      await drained.promise
    } finally {
      stream.off('drain', drained.resolve)
      this.#drained = null
    }
  }

  #begin(stream: Wire['stream']): void {
    if (!this.#binary || this.#begun) return
    this.#begun = true
    stream.write(headOf(copyHeader))
    stream.write(copyHeader)
  }

  /** The number of rows the server took. */
  async finish(): Promise<number> {
    await this.#opened.promise
    if (this.#error) throw this.#error
    const { stream } = this.#wire!
    this.#begin(stream)
    if (this.#binary) {
      stream.write(headOf(copyTrailer))
      stream.write(copyTrailer)
    }
    stream.write(copyDone)
    return this.#finished.promise
  }
}

export function copyIn(session: Session, text: string, binary = false): CopyIn {
  const copy = new CopyIn(text, binary)
  session.client.query(copy)
  return copy
}
