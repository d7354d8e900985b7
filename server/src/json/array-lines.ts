import { BYTES, TABLES } from './bytes.ts'
import { MalformedJson } from './malformed.ts'

const { BACKSLASH, CLOSE_BRACE, CLOSE_BRACKET, COLON, COMMA, NEWLINE, OPEN_BRACE, OPEN_BRACKET, QUOTE, SPACE } = BYTES
const { IS_BLANK, IS_PLAIN } = TABLES

/** Where the scan is. Inside an object, `depth` counts brackets of both kinds; what is between them is not checked. */
const State = {
  start: 0,
  firstElement: 1,
  element: 2,
  afterElement: 3,
  object: 4,
  string: 5,
  escape: 6,
  end: 7,
} as const

const IS_STRUCTURAL = new Uint8Array(256)
for (const byte of [OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET, COLON, COMMA, QUOTE]) IS_STRUCTURAL[byte] = 1

/**
 * Turns a stream that holds one array of objects into one object per line, with memory for one chunk. Blanks between
 * tokens are removed, so that an indented object fits on one line; one is kept where two values would grow together.
 * The array itself is checked here, its objects only as far as their ends must be found: the reader of the lines
 * validates them.
 *
 * `partial` accepts an array that is cut off, whose last line then is, too.
 */
export async function* cutArray(chunks: AsyncIterable<Buffer>, { partial = false } = {}): AsyncGenerator<Buffer> {
  const scan = new ArrayScan()
  for await (const chunk of chunks) {
    const lines = scan.take(chunk)
    if (lines.length > 0) yield lines
  }
  if (!partial) scan.finish()
}

class ArrayScan {
  #state: number = State.start
  #depth = 0
  #elements = 0
  #previous = 0
  #blank = false

  /** What the chunk adds to the lines: its bytes, and at most one for a blank at the end of the chunk before. */
  take(chunk: Buffer): Buffer {
    const out = Buffer.allocUnsafe(chunk.length + 1)
    let length = 0
    for (let at = 0; at < chunk.length; at++) {
      let byte = chunk[at]!
      if (this.#state === State.string) {
        // Most bytes of most files are here.
        while (IS_PLAIN[byte] === 1 && at < chunk.length) {
          out[length++] = byte
          byte = chunk[++at]!
        }
        if (at === chunk.length) break
        this.#stepInString(byte)
        out[length++] = byte
      } else if (this.#state === State.escape) {
        this.#state = State.string
        if (byte === NEWLINE) this.#refuse('has a control character in a string')
        out[length++] = byte
      } else if (IS_BLANK[byte] === 1) {
        this.#blank = true
      } else if (this.#state === State.object) {
        if (this.#blank && IS_STRUCTURAL[byte] !== 1 && IS_STRUCTURAL[this.#previous] !== 1) out[length++] = SPACE
        this.#stepInObject(byte)
        out[length++] = byte
      } else if (this.#stepBetween(byte)) {
        out[length++] = this.#state === State.object ? byte : NEWLINE
      }
    }
    return out.subarray(0, length)
  }

  finish(): void {
    if (this.#state === State.end) return
    throw new MalformedJson(
      `The file ends inside its JSON array, after ${this.#elements} elements; it is damaged or truncated.`,
    )
  }

  /** A byte that a string does not contain unescaped. */
  #stepInString(byte: number): void {
    if (byte === BACKSLASH) this.#state = State.escape
    else if (byte === QUOTE) {
      this.#state = State.object
      this.#previous = QUOTE
      this.#blank = false
    } else this.#refuse('has a control character in a string')
  }

  /** A byte inside an object that is neither blank nor part of a string. */
  #stepInObject(byte: number): void {
    this.#blank = false
    this.#previous = byte
    if (byte === QUOTE) this.#state = State.string
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) this.#depth++
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      if (--this.#depth > 0) return
      this.#state = State.afterElement
    }
  }

  /** A byte between objects. True if it begins one, or ends the line of one. */
  #stepBetween(byte: number): boolean {
    const state = this.#state
    if (state === State.start) {
      if (byte !== OPEN_BRACKET) throw new MalformedJson('The file is not a JSON array; it does not start with [.')
      this.#state = State.firstElement
      return false
    }
    if (state === State.end) throw new MalformedJson('There is more text after the JSON array of the file.')
    if (state === State.afterElement) {
      if (byte === COMMA) this.#state = State.element
      else if (byte === CLOSE_BRACKET) this.#state = State.end
      else this.#refuse('is not followed by a comma or ]')
      return true
    }
    if (byte === CLOSE_BRACKET && state === State.firstElement) {
      this.#state = State.end
      return false
    }
    this.#elements++
    if (byte !== OPEN_BRACE) this.#refuse('is not an object; each must be an object, like {"id": 1}')
    this.#state = State.object
    this.#depth = 1
    this.#previous = byte
    this.#blank = false
    return true
  }

  #refuse(why: string): never {
    throw new MalformedJson(`Element ${this.#elements} of the JSON array ${why}.`)
  }
}
