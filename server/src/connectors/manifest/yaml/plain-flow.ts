/** Collections in brackets and braces, over one or more lines. */
import type { Json } from '../../../json/json.ts'
import { indentOf, type Lines, notPlain } from './lines.ts'
import { closing, unquote } from './plain-scalars.ts'
import { plainValue } from './scalars.ts'

const MOST_DEPTH = 50
const START = /^[&*!|>%@`"'#?]|^[:-](?: |$)/
const BARE = /[^,[\]{}:]*(?::(?![ ,[\]{}]|$)[^,[\]{}:]*)*/y

export function readFlow(lines: Lines, parent: number): Json {
  const flow = new Flow(lines, parent)
  const value = flow.node(0)
  flow.end()
  return value
}

class Flow {
  readonly #lines: Lines
  readonly #parent: number
  #text: string
  #at = 0

  constructor(lines: Lines, parent: number) {
    this.#lines = lines
    this.#parent = parent
    this.#text = lines.text
  }

  /** What follows may only be a comment. */
  end(): void {
    const rest = this.#text.slice(this.#at)
    if (rest !== '' && !/^ +#/.test(rest)) notPlain()
    this.#lines.advance()
  }

  node(depth: number): Json {
    if (depth > MOST_DEPTH) notPlain()
    const first = this.#next()
    if (first === '[') return this.#list(depth)
    if (first === '{') return this.#map(depth)
    return first === '"' || first === "'" ? this.#quoted(first) : plainValue(this.#bare())
  }

  #list(depth: number): Json[] {
    this.#at++
    const items: Json[] = []
    if (this.#closes(']')) return items
    for (;;) {
      items.push(this.node(depth + 1))
      if (!this.#separates(']')) return items
    }
  }

  #map(depth: number): Json {
    this.#at++
    const made: { [key: string]: Json } = {}
    if (this.#closes('}')) return made
    for (;;) {
      const first = this.#next()
      const key = first === '"' || first === "'" ? this.#quoted(first) : plainKey(this.#bare())
      if (this.#next() !== ':') notPlain()
      this.#at++
      if (this.#at < this.#text.length && this.#text[this.#at] !== ' ') notPlain()
      if (key === '__proto__' || Object.hasOwn(made, key)) notPlain()
      made[key] = this.node(depth + 1)
      if (!this.#separates('}')) return made
    }
  }

  #closes(bracket: string): boolean {
    if (this.#next() !== bracket) return false
    this.#at++
    return true
  }

  /** True if another item follows; the last one may have a comma after it. */
  #separates(bracket: string): boolean {
    if (this.#closes(bracket)) return false
    if (this.#next() !== ',') notPlain()
    this.#at++
    return !this.#closes(bracket)
  }

  #quoted(quote: string): string {
    const rest = this.#text.slice(this.#at + 1)
    const end = closing(rest, quote)
    if (end === -1) notPlain()
    this.#at += end + 2
    return unquote(rest.slice(0, end), quote)
  }

  #bare(): string {
    BARE.lastIndex = this.#at
    const found = BARE.exec(this.#text)![0].trimEnd()
    // At the end of the line it may go on in the next one.
    if (found === '' || START.test(found) || found.includes(' #') || this.#at + found.length >= this.#text.length)
      notPlain()
    this.#at += found.length
    return found
  }

  /** The next character that is not a space, on a later line if need be. */
  #next(): string {
    for (;;) {
      while (this.#text[this.#at] === ' ') this.#at++
      const found = this.#text[this.#at]
      if (found === '#') notPlain()
      if (found !== undefined) return found
      const line = this.#lines.peek()
      if (line === undefined || indentOf(line) <= this.#parent) notPlain()
      this.#text = this.#lines.take().trim()
      this.#at = 0
    }
  }
}

/** A key without quotes that is text as it stands. */
export function plainKey(key: string): string {
  if (plainValue(key) !== key || key === '__proto__' || key === '<<') notPlain()
  return key
}
