/**
 * The messages of a COPY in binary form. PostgreSQL sends one message for each row, with the header in front of the first
 * and the trailer in one of its own (behind the header if there are no rows), so a row is never searched for. The
 * destination counts the rows again, so a server that divides them otherwise is noticed there at the latest.
 */
import { copyHeader, copyTrailer } from '../shared/native-rows.ts'

export class BinaryRows {
  readonly #fields: number
  #begun = false
  #over = false
  #rows = 0
  /** Where the complete rows of the page end. */
  end = 0

  constructor(fields: number) {
    this.#fields = fields
  }

  /** Takes the message that is in the page from `from` to `to`. Returns what is wrong with it, or null. */
  take(page: Buffer, from: number, to: number): string | null {
    let length = to - from
    if (this.#over) return 'rows after the end of the rows'
    if (!this.#begun) {
      // The flags are zero too: nothing in them is ignored.
      if (length < copyHeader.length || copyHeader.compare(page, from, from + copyHeader.length) !== 0)
        return 'rows that do not begin as those of a COPY in binary form'
      page.copyWithin(from, from + copyHeader.length, to)
      length -= copyHeader.length
      this.#begun = true
    }
    this.end = from
    // The header alone.
    if (length === 0 && to > from) return null
    if (length === copyTrailer.length && copyTrailer.compare(page, from, from + length) === 0) {
      this.#over = true
      return null
    }
    if (length < 2 || page.readInt16BE(from) !== this.#fields) return 'a row with another number of fields'
    this.end = from + length
    this.#rows += 1
    return null
  }

  /** The complete rows leave the page. Returns how many there are. */
  cut(): number {
    const rows = this.#rows
    this.#rows = 0
    this.end = 0
    return rows
  }

  get over(): boolean {
    return this.#over
  }
}
