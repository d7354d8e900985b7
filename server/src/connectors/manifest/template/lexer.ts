/** Splits a template into text and tokens. Whitespace control and the dropped last newline are as in Jinja. */
import { TemplateError } from './values.ts'

export type Token =
  | { kind: 'text'; text: string }
  | { kind: 'open' | 'close'; block: 'output' | 'statement' }
  | { kind: 'name'; text: string }
  | { kind: 'string'; text: string }
  | { kind: 'number'; text: string }
  | { kind: 'operator'; text: string }

const OPERATORS = /(?:\/\/|\*\*|==|!=|<=|>=|[-+*/%~<>=()[\]{}.,:|])/y
const NAME = /[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*/y
const NUMBER = /\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?/y
const SPACE = /\s+/y

/** Where the next block begins, and of what kind it is. */
const OPENINGS = /\{\{|\{%|\{#/g
const RAW = /^\{%[-+]?\s*raw\s*(-?)%\}/
const END_RAW = /\{%([-+]?)\s*endraw\s*(-?)[+]?%\}/

export function tokenize(source: string): Token[] {
  const text = source.replace(/\r\n|\r/g, '\n').replace(/\n$/, '')
  const tokens: Token[] = []
  let at = 0
  let trimNext = false
  while (at < text.length) {
    OPENINGS.lastIndex = at
    const opening = OPENINGS.exec(text)
    const end = opening === null ? text.length : opening.index
    let piece = text.slice(at, end)
    if (trimNext) piece = piece.trimStart()
    if (opening !== null && text[end + 2] === '-') piece = piece.trimEnd()
    if (piece !== '') tokens.push({ kind: 'text', text: piece })
    if (opening === null) break
    const block = readBlock(text, end, tokens)
    at = block.end
    trimNext = block.trim
  }
  return tokens
}

interface BlockEnd {
  end: number
  /** Spaces after the block are dropped. */
  trim: boolean
}

function readBlock(text: string, at: number, tokens: Token[]): BlockEnd {
  if (text.startsWith('{#', at)) return skipComment(text, at)
  const raw = text.startsWith('{%', at) ? RAW.exec(text.slice(at, at + 64)) : null
  if (raw !== null) return readRaw(text, at + raw[0].length, raw[1] === '-', tokens)
  const block = text.startsWith('{{', at) ? 'output' : 'statement'
  tokens.push({ kind: 'open', block })
  const sign = text[at + 2]
  const end = readTokens(text, at + (sign === '-' || sign === '+' ? 3 : 2), block, tokens)
  tokens.push({ kind: 'close', block })
  return end
}

function skipComment(text: string, at: number): BlockEnd {
  const end = text.indexOf('#}', at + 2)
  if (end === -1) throw new TemplateError('a comment is not closed')
  return { end: end + 2, trim: text[end - 1] === '-' }
}

function readRaw(text: string, from: number, trim: boolean, tokens: Token[]): BlockEnd {
  const end = END_RAW.exec(text.slice(from))
  if (end === null) throw new TemplateError('a raw block is not closed')
  let raw = text.slice(from, from + end.index)
  if (trim) raw = raw.trimStart()
  if (end[1] === '-') raw = raw.trimEnd()
  if (raw !== '') tokens.push({ kind: 'text', text: raw })
  return { end: from + end.index + end[0].length, trim: end[2] === '-' }
}

/** The tokens up to the end of a block. A closing brace inside brackets belongs to the expression. */
function readTokens(text: string, from: number, block: 'output' | 'statement', tokens: Token[]): BlockEnd {
  const close = block === 'output' ? '}}' : '%}'
  let at = from
  let open = 0
  while (at < text.length) {
    if (open === 0 && text.startsWith(`-${close}`, at)) return { end: at + 3, trim: true }
    if (open === 0 && text.startsWith(close, at)) return { end: at + 2, trim: false }
    const space = match(SPACE, text, at)
    if (space !== null) {
      at += space.length
      continue
    }
    const token = readToken(text, at)
    if (token.token.kind === 'operator') {
      if ('([{'.includes(token.token.text)) open++
      else if (')]}'.includes(token.token.text)) open--
      if (open < 0) throw new TemplateError(`unexpected "${token.token.text}"`)
    }
    tokens.push(token.token)
    at = token.end
  }
  throw new TemplateError(`a "${block === 'output' ? '{{' : '{%'}" is not closed`)
}

function readToken(text: string, at: number): { token: Token; end: number } {
  const char = text[at]!
  if (char === '"' || char === "'") return readString(text, at, char)
  const number = match(NUMBER, text, at)
  if (number !== null) return { token: { kind: 'number', text: number.replaceAll('_', '') }, end: at + number.length }
  const name = match(NAME, text, at)
  if (name !== null) return { token: { kind: 'name', text: name }, end: at + name.length }
  const operator = match(OPERATORS, text, at)
  if (operator === null) throw new TemplateError(`unexpected character ${JSON.stringify(char)}`)
  return { token: { kind: 'operator', text: operator }, end: at + operator.length }
}

const ESCAPES: Record<string, string> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  a: '\x07',
  v: '\v',
  '0': '\0',
  '\n': '',
}

function readString(text: string, from: number, quote: string): { token: Token; end: number } {
  let value = ''
  for (let at = from + 1; at < text.length; at++) {
    const char = text[at]!
    if (char === quote) return { token: { kind: 'string', text: value }, end: at + 1 }
    if (char !== '\\') {
      value += char
      continue
    }
    const next = text[++at] ?? ''
    const hex = next === 'x' ? 2 : next === 'u' ? 4 : 0
    if (hex > 0) {
      value += String.fromCharCode(Number.parseInt(text.slice(at + 1, at + 1 + hex), 16) || 0)
      at += hex
    } else if (next === quote || next === '\\' || next === "'" || next === '"') value += next
    else value += ESCAPES[next] ?? `\\${next}`
  }
  throw new TemplateError('a string is not closed')
}

function match(pattern: RegExp, text: string, at: number): string | null {
  pattern.lastIndex = at
  return pattern.exec(text)?.[0] ?? null
}
