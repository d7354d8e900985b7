/**
 * Cuts the bytes of a server into packets: three bytes of length, one of sequence, the payload. Length and sequence are
 * checked before anything is kept, and memory grows with what has arrived, never with the length that was announced. A
 * packet that is whole within its chunk is passed on without copying.
 */
import { Violation } from './violation.ts'

export const HEAD = 4
/** A payload this long continues in the next packet. */
const FULL = 0xffffff
const FIRST_ROOM = 4096

export interface PacketTaker {
  /** The longest payload that may come now. */
  readonly limit: number
  take(bytes: Buffer, at: number, end: number): void
}

export class PacketReader {
  readonly #taker: PacketTaker
  #sequence: number | null = 0
  /** Bytes of a packet that is not whole yet, its head included; parts that were joined have no heads. */
  #room: Buffer = Buffer.alloc(0)
  #held = 0
  /** Payload bytes of earlier parts of the same payload. */
  #joined = 0

  constructor(taker: PacketTaker) {
    this.#taker = taker
  }

  /** The sequence number that the next packet must have; null if it cannot be known. */
  expectSequence(next: number | null): void {
    this.#sequence = next === null ? null : next & 0xff
  }

  get sequence(): number {
    return this.#sequence ?? 0
  }

  /** Whether the beginning of a packet waits for its rest. */
  get holds(): boolean {
    return this.#held > 0
  }

  feed(chunk: Buffer): void {
    let at = 0
    while (this.#held > 0 && at < chunk.length) at = this.#complete(chunk, at)
    while (at < chunk.length) {
      if (chunk.length - at < HEAD) return void this.#hold(chunk, at)
      const length = this.#readHead(chunk, at)
      const end = at + HEAD + length
      if (length === FULL || end > chunk.length) {
        this.#hold(chunk, at)
        return
      }
      this.#sequence = (this.sequence + 1) & 0xff
      this.#taker.take(chunk, at + HEAD, end)
      at = end
    }
  }

  #readHead(bytes: Buffer, at: number): number {
    const length = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16)
    if (this.#sequence === null) this.#sequence = bytes[at + 3]!
    if (bytes[at + 3] !== this.#sequence)
      throw new Violation(`it sent a packet with the number ${bytes[at + 3]} where ${this.#sequence} had to follow`)
    if (this.#joined + length > this.#taker.limit)
      throw new Violation(
        `it sent a packet of ${this.#joined + length} bytes, and at most ${this.#taker.limit} can come here`,
      )
    return length
  }

  #hold(chunk: Buffer, at: number): void {
    this.#room = Buffer.allocUnsafeSlow(FIRST_ROOM)
    this.#held = 0
    this.#joined = 0
    let next = at
    // A chunk may hold the end of one long packet and the beginning of another.
    while (next < chunk.length) next = this.#complete(chunk, next)
  }

  /** Adds to what is held. Returns where in the chunk the next packet starts. */
  #complete(chunk: Buffer, from: number): number {
    let at = from
    if (this.#held < this.#joined + HEAD) {
      at = this.#gather(chunk, at, this.#joined + HEAD)
      if (this.#held < this.#joined + HEAD) return at
    }
    const length = this.#readHead(this.#room, this.#joined)
    const wanted = this.#joined + HEAD + length
    at = this.#gather(chunk, at, wanted)
    if (this.#held < wanted) return at
    this.#sequence = (this.sequence + 1) & 0xff
    // The head is taken out, so that the parts of a payload follow each other.
    this.#room.copyWithin(this.#joined, this.#joined + HEAD, this.#held)
    this.#held -= HEAD
    this.#joined += length
    if (length === FULL) return at
    const end = this.#held
    this.#held = 0
    this.#joined = 0
    this.#taker.take(this.#room, 0, end)
    // Whoever took the packet may keep a part of it.
    this.#room = Buffer.allocUnsafeSlow(FIRST_ROOM)
    return at
  }

  #gather(chunk: Buffer, at: number, wanted: number): number {
    const end = Math.min(at + wanted - this.#held, chunk.length)
    const needed = this.#held + end - at
    if (needed > this.#room.length) {
      const room = Buffer.allocUnsafeSlow(Math.min(Math.max(2 * this.#room.length, needed), Math.max(wanted, needed)))
      this.#room.copy(room, 0, 0, this.#held)
      this.#room = room
    }
    this.#held += chunk.copy(this.#room, this.#held, at, end)
    return end
  }
}
