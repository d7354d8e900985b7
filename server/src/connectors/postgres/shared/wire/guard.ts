/**
 * Sits between the socket and the driver: bytes are passed on only once they are known to be messages that may come
 * now. Messages are passed on whole, so the driver never waits for the rest of one. Rows of COPY are the exception:
 * only their headers are checked, and their bytes are passed on in the chunks they arrived in, without copying.
 */
import { Conversation } from './conversation.ts'
import { checkFrame, kinds, readHead } from './frames.ts'

/** Kind and length. */
const HEAD = 5
const FIRST_ROOM = 4096

export class WireGuard {
  readonly conversation: Conversation
  readonly #handOn: (bytes: Buffer) => void
  /** What is left of a COPY row whose beginning was already passed on. */
  #rowLeft = 0
  /** The beginning of a message: `#held` of the `#wanted` bytes that are needed to check it. */
  #room: Buffer = Buffer.alloc(0)
  #held = 0
  #wanted = HEAD

  constructor(handOn: (bytes: Buffer) => void, conversation = new Conversation()) {
    this.#handOn = handOn
    this.conversation = conversation
  }

  /** Throws a Violation. Everything before it has been passed on: an error from the server says more than ours. */
  take(chunk: Buffer): void {
    let at = this.#held > 0 ? this.#complete(chunk) : 0
    let from = at
    try {
      while (at < chunk.length) {
        if (this.conversation.givesRows) at = this.#skipRows(chunk, at)
        const end = this.#look(chunk, at)
        if (end === at) break
        const ready = chunk[at] === kinds.ready
        at = end
        if (!ready) continue
        // The driver may send the next query now, and only then is it known what may follow.
        const message = chunk.subarray(from, at)
        from = at
        this.#handOn(message)
      }
    } finally {
      if (at > from) this.#handOn(chunk.subarray(from, at))
    }
    if (at < chunk.length) this.#hold(chunk, at)
  }

  /** The position after the COPY rows that start at `at`. The bytes of a load pass through here. */
  #skipRows(chunk: Buffer, from: number): number {
    let at = from + this.#rowLeft
    while (at + HEAD <= chunk.length && chunk[at] === kinds.copyData) at += 1 + readHead(chunk, at)
    this.#rowLeft = Math.max(at - chunk.length, 0)
    return at - this.#rowLeft
  }

  /** The position after the message that starts at `at`; `at` itself if the message is incomplete. */
  #look(chunk: Buffer, at: number): number {
    if (chunk.length - at < HEAD) return at
    const length = readHead(chunk, at)
    const end = at + 1 + length
    if (end > chunk.length) return at
    this.#accept(chunk, at, length)
    return end
  }

  #accept(bytes: Buffer, at: number, length: number): void {
    const kind = bytes[at]!
    this.conversation.expect(kind, length)
    checkFrame(bytes, at, at + 1 + length)
    this.conversation.accept(kind, bytes, at)
  }

  #hold(chunk: Buffer, at: number): void {
    this.#room = Buffer.allocUnsafeSlow(FIRST_ROOM)
    this.#wanted = HEAD
    this.#held = 0
    this.#complete(chunk.subarray(at))
  }

  /** Adds to what is held. Returns where in the chunk the next message starts. */
  #complete(chunk: Buffer): number {
    let at = this.#gather(chunk, 0)
    if (this.#held < this.#wanted) return at
    if (this.#wanted === HEAD) {
      const length = readHead(this.#room, 0)
      if (this.#room[0] === kinds.copyData && this.conversation.givesRows) {
        this.#rowLeft = length - 4
        return this.#release(at)
      }
      // Do not wait for the rest of a message that cannot come now.
      this.conversation.expect(this.#room[0]!, 0)
      this.#wanted = 1 + length
      at = this.#gather(chunk, at)
      if (this.#held < this.#wanted) return at
    }
    this.#accept(this.#room, 0, this.#wanted - 1)
    return this.#release(at)
  }

  #gather(chunk: Buffer, at: number): number {
    const end = Math.min(at + this.#wanted - this.#held, chunk.length)
    const needed = this.#held + end - at
    if (needed > this.#room.length) {
      // Grows with what has arrived, not with the length that was announced.
      const room = Buffer.allocUnsafeSlow(Math.min(Math.max(2 * this.#room.length, needed), this.#wanted))
      this.#room.copy(room, 0, 0, this.#held)
      this.#room = room
    }
    this.#held += chunk.copy(this.#room, this.#held, at, end)
    return end
  }

  #release(at: number): number {
    const message = this.#room.subarray(0, this.#held)
    this.#held = 0
    this.#handOn(message)
    return at
  }
}
