/**
 * Python's `ast.literal_eval`, which Airbyte applies to what a template renders: `"5"` becomes 5 and `"['a']"` a list. Text
 * that is not a literal stays as it is.
 */
import { type Dict, float, setKey, Tuple, type Value, wholeNumber } from './values.ts'

const MOST_DEPTH = 100
const NUMBER = /[+-]?(?:0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(?:\d[\d_]*)?\.?\d[\d_]*\.?(?:[eE][+-]?\d+)?)/y
const WORDS: Array<[string, Value]> = [
  ['True', true],
  ['False', false],
  ['None', null],
]

class NotLiteral extends Error {}
/** One for all: most texts are no literals, and a stack would cost more than reading them. */
const NOT_LITERAL = new NotLiteral('not a literal')

/** The value, or undefined if the text is not a literal. */
export function literalValue(text: string): Value | undefined {
  // Most texts are words: a literal begins with a digit, a sign, a quote, a bracket or one of three words.
  const start = startOf(text)
  if (!/[-+.\d'"[({TFNrRuU]/.test(text[start] ?? '')) return undefined
  const reader = new LiteralReader(text, start)
  try {
    return reader.readAll()
  } catch (error) {
    if (error instanceof NotLiteral) return undefined
    throw error
  }
}

/**
 * Blank lines may come first; an indent after them is an error in Python, and the text is no literal. A scan, because a
 * pattern for this takes quadratic time on blanks.
 */
function startOf(text: string): number {
  let indent = 0
  while (text[indent] === ' ' || text[indent] === '\t') indent++
  let lines = 0
  for (let at = indent; /\s/.test(text[at] ?? ''); at++) if (text[at] === '\n') lines = at + 1
  return lines || indent
}

class LiteralReader {
  readonly #text: string
  #at: number
  #depth = 0

  constructor(text: string, start: number) {
    this.#text = text
    this.#at = start
  }

  readAll(): Value {
    const value = this.#readTuple()
    this.#skipSpace()
    if (this.#at < this.#text.length) throw NOT_LITERAL
    return value
  }

  /** `1, 2` is a tuple without brackets. */
  #readTuple(): Value {
    const first = this.#read()
    this.#skipInline()
    if (this.#text[this.#at] !== ',') return first
    const items = [first]
    while (this.#text[this.#at] === ',') {
      this.#at++
      this.#skipInline()
      if (this.#at >= this.#text.length) break
      items.push(this.#read())
      this.#skipInline()
    }
    return Tuple.from(items)
  }

  #read(): Value {
    if (++this.#depth > MOST_DEPTH) throw NOT_LITERAL
    const char = this.#text[this.#at]
    let value: Value
    if (char === '[') value = this.#readItems(']')
    else if (char === '(') value = this.#readParenthesis()
    else if (char === '{') value = this.#readDict()
    else if (char === '"' || char === "'") value = this.#readStrings(false)
    else if (char !== undefined && /[rRuU]/.test(char) && /["']/.test(this.#text[this.#at + 1] ?? '')) {
      this.#at++
      value = this.#readStrings(char === 'r' || char === 'R')
    } else value = this.#readWord()
    this.#depth--
    return value
  }

  #readWord(): Value {
    for (const [word, value] of WORDS) {
      if (this.#text.startsWith(word, this.#at) && !/\w/.test(this.#text[this.#at + word.length] ?? '')) {
        this.#at += word.length
        return value
      }
    }
    NUMBER.lastIndex = this.#at
    const digits = NUMBER.exec(this.#text)?.[0]
    if (digits === undefined) throw NOT_LITERAL
    this.#at += digits.length
    if (/[\w.]/.test(this.#text[this.#at] ?? '')) throw NOT_LITERAL
    return numberValue(digits)
  }

  #readItems(close: string): Value[] {
    this.#at++
    const items: Value[] = []
    for (;;) {
      this.#skipSpace()
      if (this.#text[this.#at] === close) break
      items.push(this.#read())
      this.#skipSpace()
      if (this.#text[this.#at] === ',') this.#at++
      else if (this.#text[this.#at] !== close) throw NOT_LITERAL
    }
    this.#at++
    return items
  }

  #readParenthesis(): Value {
    const start = this.#at
    const items = this.#readItems(')')
    const inside = this.#text.slice(start + 1, this.#at - 1).trimEnd()
    return items.length === 1 && !inside.endsWith(',') ? items[0]! : Tuple.from(items)
  }

  #readDict(): Value {
    this.#at++
    const dict: Dict = {}
    for (;;) {
      this.#skipSpace()
      if (this.#text[this.#at] === '}') break
      const key = this.#read()
      this.#skipSpace()
      if (this.#text[this.#at] !== ':' || (typeof key === 'object' && key !== null)) throw NOT_LITERAL
      this.#at++
      this.#skipSpace()
      setKey(dict, String(key), this.#read())
      this.#skipSpace()
      if (this.#text[this.#at] === ',') this.#at++
      else if (this.#text[this.#at] !== '}') throw NOT_LITERAL
    }
    this.#at++
    return dict
  }

  /** One string, or several side by side. */
  #readStrings(raw: boolean): string {
    let text = this.#readString(raw)
    for (;;) {
      const before = this.#at
      this.#skipInline()
      const char = this.#text[this.#at]
      if (char !== '"' && char !== "'") {
        this.#at = before
        return text
      }
      text += this.#readString(false)
    }
  }

  #readString(raw: boolean): string {
    const char = this.#text[this.#at]!
    const triple = this.#text.startsWith(char.repeat(3), this.#at)
    const quote = triple ? char.repeat(3) : char
    this.#at += quote.length
    let value = ''
    for (;;) {
      const next = this.#text[this.#at]
      if (next === undefined || (!triple && next === '\n')) throw NOT_LITERAL
      if (this.#text.startsWith(quote, this.#at)) {
        this.#at += quote.length
        return value
      }
      if (next === '\\' && !raw) value += this.#readEscape()
      else {
        value += next
        this.#at++
      }
    }
  }

  #readEscape(): string {
    const char = this.#text[this.#at + 1]
    if (char === undefined) throw NOT_LITERAL
    this.#at += 2
    const simple = SIMPLE_ESCAPES[char]
    if (simple !== undefined) return simple
    const length = HEX_ESCAPES[char]
    if (length === undefined) return `\\${char}`
    const digits = this.#text.slice(this.#at, this.#at + length)
    if (digits.length < length || !/^[\da-fA-F]+$/.test(digits)) throw NOT_LITERAL
    this.#at += length
    const code = Number.parseInt(digits, 16)
    if (code > 0x10ffff) throw NOT_LITERAL
    return String.fromCodePoint(code)
  }

  #skipInline(): void {
    if (this.#depth > 0) this.#skipSpace()
    else while (/[ \t]/.test(this.#text[this.#at] ?? '')) this.#at++
  }

  #skipSpace(): void {
    while (/\s/.test(this.#text[this.#at] ?? '')) this.#at++
  }
}

const SIMPLE_ESCAPES: Record<string, string> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  a: '\x07',
  v: '\v',
  '0': '\0',
  '\\': '\\',
  "'": "'",
  '"': '"',
  '\n': '',
}
const HEX_ESCAPES: Record<string, number> = { x: 2, u: 4, U: 8 }

function numberValue(source: string): Value {
  const digits = source.replaceAll('_', '')
  const negative = digits.startsWith('-')
  const unsigned = digits.replace(/^[+-]/, '')
  if (/^0[xXoObB]/.test(unsigned)) return negative ? -Number(unsigned) : Number(unsigned)
  if (/^\d+$/.test(unsigned)) {
    // Python has no decimal literal with leading zeros: "007" stays text.
    if (/^0\d/.test(unsigned) && !/^0+$/.test(unsigned)) throw NOT_LITERAL
    return wholeNumber(negative ? `-${unsigned}` : unsigned)
  }
  const number = Number(digits)
  if (!Number.isFinite(number)) throw NOT_LITERAL
  return float(number)
}
