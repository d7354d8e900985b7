/** Answers that are asked for again within one read, up to a size: parents that several partitions go through. */
import type { WholeAnswer } from '../../egress/policy.ts'

const MAX_BYTES = 16 * 1024 * 1024

export class AnswerCache {
  readonly #answers = new Map<string, WholeAnswer>()
  #bytes = 0

  /** A copy: whoever reads records changes the bytes. */
  get(key: string): WholeAnswer | null {
    const found = this.#answers.get(key)
    return found ? { ...found, body: Buffer.from(found.body) } : null
  }

  /** The oldest give way. */
  put(key: string, answer: WholeAnswer): void {
    if (this.#answers.has(key) || answer.body.length > MAX_BYTES / 4) return
    this.#answers.set(key, { ...answer, body: Buffer.from(answer.body) })
    this.#bytes += answer.body.length
    for (const [oldest, { body }] of this.#answers) {
      if (this.#bytes <= MAX_BYTES) return
      this.#answers.delete(oldest)
      this.#bytes -= body.length
    }
  }
}
