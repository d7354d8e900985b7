/** The lines of a YAML text, and a position in them: a line, and the column in it at which the next node begins. */

/** The text has something that the plain reader does not read. It says nothing about whether the text is valid. */
export class NotPlain extends Error {}

export function notPlain(): never {
  throw new NotPlain('not plain')
}

export class Lines {
  readonly #lines: string[]
  readonly endsWithBreak: boolean
  #line = -1
  /** Where the next node begins; -1 at the end. */
  column = -1
  /** The rest of the line from there on. */
  text = ''

  constructor(text: string) {
    this.#lines = text.split('\n')
    this.endsWithBreak = text.endsWith('\n')
    this.advance()
  }

  /** Moves to the next line that is neither blank nor a comment. */
  advance(): void {
    while (++this.#line < this.#lines.length) {
      const line = this.#lines[this.#line]!
      const column = indentOf(line)
      if (column === line.length || line.charCodeAt(column) === HASH) continue
      this.column = column
      this.text = line.slice(column).trimEnd()
      return
    }
    this.column = -1
    this.text = ''
  }

  /** Moves within the line. */
  skip(characters: number): void {
    this.column += characters
    this.text = this.text.slice(characters)
  }

  /** The line after the current one, as it stands. */
  peek(): string | undefined {
    return this.#lines[this.#line + 1]
  }

  /** Takes the next line as part of a scalar. */
  take(): string {
    return this.#lines[++this.#line]!
  }
}

const SPACE = 0x20
const HASH = 0x23

export function indentOf(line: string): number {
  let at = 0
  while (line.charCodeAt(at) === SPACE) at++
  return at
}

/** Text of several lines without quotes around it or inside of quotes: a line break is a space, a blank line a line break. */
export function fold(lines: readonly string[]): string {
  let text = lines[0]!
  let blank = 0
  for (const line of lines.slice(1)) {
    if (line === '') blank++
    else {
      text += (blank === 0 ? ' ' : '\n'.repeat(blank)) + line
      blank = 0
    }
  }
  return text
}
