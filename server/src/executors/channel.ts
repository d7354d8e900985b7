/**
 * Frames between a service process and its executor, over a socket pair: the length of the head (4 bytes, little
 * endian), the length of the body, the head as JSON, the body as raw bytes. Node's IPC buffers a message of any size
 * before it can be inspected. Here both lengths are checked against their limits before anything is allocated, because
 * an executor compromised by the bytes it handles must not fill the memory of the process that serves all tenants.
 */
import type { Socket } from 'node:net'

const LENGTHS_BYTES = 8

export interface FrameLimits {
  head: number
  body: number
  /** Far above what an honest executor sends: each frame costs time in the process that serves all tenants. */
  perSecond: { frames: number; bytes: number }
}

export interface ChannelHandlers {
  /** The parsed head: untrusted until it is validated. */
  message(message: unknown, body: Buffer): void
  /** The other side violated the format. Nothing is read after this. */
  broken(reason: string): void
}

export interface Channel {
  send(message: object, body?: Uint8Array): void
}

export function openChannel(socket: Socket, limits: FrameLimits, handlers: ChannelHandlers): Channel {
  const reader = new FrameReader(limits)
  socket.on('data', (chunk: Buffer) => {
    try {
      reader.push(chunk, handlers.message)
    } catch (error) {
      socket.destroy()
      handlers.broken(error instanceof Error ? error.message : String(error))
    }
  })
  // The exit of the other process is noticed elsewhere.
  socket.on('error', () => {})
  return {
    send(message, body) {
      if (socket.destroyed) return
      const head = Buffer.from(JSON.stringify(message))
      const lengths = Buffer.allocUnsafe(LENGTHS_BYTES)
      lengths.writeUInt32LE(head.length, 0)
      lengths.writeUInt32LE(body?.length ?? 0, 4)
      socket.cork()
      socket.write(lengths)
      socket.write(head)
      if (body && body.length > 0) socket.write(body)
      socket.uncork()
    },
  }
}

export class FrameReader {
  readonly #limits: FrameLimits
  readonly #lengths = Buffer.allocUnsafe(LENGTHS_BYTES)
  #lengthBytes = 0
  #frame: Buffer | null = null
  #frameBytes = 0
  #headBytes = 0
  #second = 0
  #received = { frames: 0, bytes: 0 }

  constructor(limits: FrameLimits) {
    this.#limits = limits
  }

  push(chunk: Buffer, take: (message: unknown, body: Buffer) => void): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#frame === null) {
        const wanted = Math.min(LENGTHS_BYTES - this.#lengthBytes, chunk.length - at)
        chunk.copy(this.#lengths, this.#lengthBytes, at, at + wanted)
        this.#lengthBytes += wanted
        at += wanted
        if (this.#lengthBytes < LENGTHS_BYTES) return
        this.#begin()
      }
      const frame = this.#frame!
      const copied = chunk.copy(frame, this.#frameBytes, at)
      this.#frameBytes += copied
      at += copied
      if (this.#frameBytes < frame.length) return
      this.#frame = null
      this.#lengthBytes = 0
      take(JSON.parse(frame.toString('utf8', 0, this.#headBytes)), frame.subarray(this.#headBytes))
    }
  }

  #begin(): void {
    const head = this.#lengths.readUInt32LE(0)
    const body = this.#lengths.readUInt32LE(4)
    if (head === 0 || head > this.#limits.head)
      throw new Error(`a head of ${head} bytes, more than the limit of ${this.#limits.head}`)
    if (body > this.#limits.body)
      throw new Error(`a body of ${body} bytes, more than the limit of ${this.#limits.body}`)
    this.#count(head + body)
    this.#headBytes = head
    this.#frame = Buffer.allocUnsafe(head + body)
    this.#frameBytes = 0
  }

  #count(bytes: number): void {
    const second = Math.floor(performance.now() / 1000)
    if (second !== this.#second) this.#received = { frames: 0, bytes: 0 }
    this.#second = second
    this.#received.frames++
    this.#received.bytes += bytes
    const { perSecond } = this.#limits
    if (this.#received.frames > perSecond.frames || this.#received.bytes > perSecond.bytes)
      throw new Error(`more than ${perSecond.frames} frames or ${perSecond.bytes} bytes in a second`)
  }
}
