/**
 * Stands between the socket and the driver: bytes are handed on only once they are known to be messages that may come
 * now. Messages are handed on whole, so that the driver never waits for the rest of one. Rows of COPY are the exception:
 * only their heads are looked at, and their bytes are handed on in the chunks that they came in, never copied.
 */
import { Conversation } from './conversation.ts'
import { checkFrame, kinds, readHead } from './frames.ts'

/** The kind and the length. */
const HEAD = 5
const FIRST_ROOM = 4096

export class WireGuard {
  readonly conversation: Conversation
  readonly #handOn: (bytes: Buffer) => void
  /** What is left of a row of COPY whose beginning was handed on. */
  #rowLeft = 0
  /** The beginning of a message: `#held` of the `#wanted` bytes with which it can be looked at. */
  #room: Buffer = Buffer.alloc(0)
  #held = 0
  #wanted = HEAD

  constructor(handOn: (bytes: Buffer) => void, conversation = new Conversation()) {
    this.#handOn = handOn
    this.conversation = conversation
  }

  /** Throws a Violation. All that came before it has been handed on: an error of the server says more than ours. */
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
        // The driver may ask the next question now, and only then is it known what may follow.
        const message = chunk.subarray(from, at)
        from = at
        this.#handOn(message)
      }
    } finally {
      if (at > from) this.#handOn(chunk.subarray(from, at))
    }
    if (at < chunk.length) this.#hold(chunk, at)
  }

  /** The place behind the rows of COPY that begin at `at`. This is where the bytes of a load pass. */
  #skipRows(chunk: Buffer, from: number): number {
    let at = from + this.#rowLeft
    while (at + HEAD <= chunk.length && chunk[at] === kinds.copyData) at += 1 + readHead(chunk, at)
    this.#rowLeft = Math.max(at - chunk.length, 0)
    return at - this.#rowLeft
  }

  /** The place behind the message that begins at `at`; `at` itself where the message is not all there. */
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

  /** Adds to what is held. Returns where in the chunk the next message begins. */
  #complete(chunk: Buffer): number {
    let at = this.#gather(chunk, 0)
    if (this.#held < this.#wanted) return at
    if (this.#wanted === HEAD) {
      const length = readHead(this.#room, 0)
      if (this.#room[0] === kinds.copyData && this.conversation.givesRows) {
        this.#rowLeft = length - 4
        return this.#release(at)
      }
      // What cannot come now is not waited for.
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
      // It grows with what has come, not with what was promised.
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
