/**
 * The lines of a log as far as they are known. Lines are numbered from 1, and a page asks only for those that it shows, so
 * most texts of a long log are unknown at first. Of a log at its limit the middle is missing: numbers that the server left
 * out of an answer do not exist, and get no row.
 */
export interface LinesAnswer {
  logs: string
  numbers: number[]
  more: boolean
}

interface Gap {
  from: number
  to: number
}

/** No browser scrolls further than about 800,000 rows. Earlier lines follow once the gap before them is known. */
const MOST_ROWS = 500_000

export class LogLines {
  #texts = new Map<number, string>()
  /** In order, apart from each other. */
  #gaps: Gap[] = []
  last = 0

  /** An answer to a question without a filter: all lines before `before`, or those at the end. */
  addPage(answer: LinesAnswer, before: number | null): void {
    const texts = textsOf(answer)
    const { numbers } = answer
    this.last = Math.max(this.last, numbers.at(-1) ?? 0)
    let next = before ?? this.last + 1
    for (let index = numbers.length - 1; index >= 0; index -= 1) {
      const number = numbers[index]!
      this.#texts.set(number, texts[index]!)
      if (number < next - 1) this.#addGap({ from: number + 1, to: next - 1 })
      next = number
    }
    if (!answer.more && next > 1) this.#addGap({ from: 1, to: Math.min(next - 1, this.last) })
  }

  append(number: number, text: string): void {
    if (number > this.last + 1 && this.last > 0) this.#addGap({ from: this.last + 1, to: number - 1 })
    this.#texts.set(number, text)
    this.last = Math.max(this.last, number)
  }

  get rows(): number {
    return Math.min(MOST_ROWS, this.#present())
  }

  /** The number of the line in a row. */
  numberAt(row: number): number {
    let number = row + 1 + this.#hidden()
    for (const { from, to } of this.#gaps) {
      if (from > number) break
      number += to - from + 1
    }
    return number
  }

  /** The row of a line; of one that does not exist, the row of the next that does. */
  rowOf(number: number): number {
    let row = number - 1 - this.#hidden()
    for (const { from, to } of this.#gaps) {
      if (from > number) break
      row -= Math.min(to, number - 1) - from + 1
    }
    return Math.max(0, Math.min(row, this.rows - 1))
  }

  /** Undefined: not known yet. */
  textOf(number: number): string | undefined {
    return this.#texts.get(number)
  }

  #present(): number {
    return this.#gaps.reduce((left, { from, to }) => left - (to - from + 1), this.last)
  }

  /** Rows at the beginning for which there is no room. */
  #hidden(): number {
    return Math.max(0, this.#present() - MOST_ROWS)
  }

  #addGap(gap: Gap): void {
    const apart = this.#gaps.filter(({ from, to }) => to < gap.from - 1 || from > gap.to + 1)
    const touching = this.#gaps.filter((each) => !apart.includes(each))
    const from = Math.min(gap.from, ...touching.map((each) => each.from))
    const to = Math.max(gap.to, ...touching.map((each) => each.to))
    this.#gaps = [...apart, { from, to }].sort((one, other) => one.from - other.from)
  }
}

export function textsOf({ logs, numbers }: Pick<LinesAnswer, 'logs' | 'numbers'>): string[] {
  return numbers.length === 0 ? [] : logs.replace(/\n$/, '').split('\n')
}

export type Level = 'debug' | 'info' | 'warn' | 'error'

export interface LineParts {
  /** As it was written, in UTC; null for a line that is not the log's own, such as one about omitted lines. */
  time: string | null
  level: Level | null
  text: string
}

const PARTS = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z) (DEBUG|ERROR|INFO |WARN ) (.*)$/s

export function splitLine(line: string): LineParts {
  const [, time, level, text] = PARTS.exec(line) ?? []
  if (time === undefined) return { time: null, level: null, text: line }
  return { time, level: level!.trimEnd().toLowerCase() as Level, text: text! }
}
