/**
 * The choice of columns over JSON lines, for sources that can not choose by themselves. It cuts each line into its top
 * fields without parsing the values, so what is kept stays byte for byte what the source gave: no digit of a large number
 * is lost. Lines are looked at as latin1, where one character is one byte and everything JSON is made of is ASCII.
 *
 * A hashed value becomes the SHA-256, in hex, of the text of a string or of the JSON of anything else; null stays null,
 * for it says that there is nothing to hide.
 */
import { createHash } from 'node:crypto'
import { type ColumnChoice, ConnectorError, type Page } from '../connectors/contract.ts'

/** What becomes of a field: dropped, or written under this key (JSON text, latin1). */
interface Fate {
  key: string
  hash: boolean
}

export function columnChooser(choice: ColumnChoice): (page: Page) => Page {
  const fates = new Map<string, Fate | null>()
  const fateOf = (rawKey: string): Fate | null => {
    let fate = fates.get(rawKey)
    if (fate === undefined) {
      fate = decideFate(choice, rawKey)
      // Records made of ever new keys must not fill the memory.
      if (fates.size < 10_000) fates.set(rawKey, fate)
    }
    return fate
  }
  return (page) => {
    const text = page.bytes.toString('latin1')
    let out = ''
    let start = 0
    while (start < text.length) {
      const newline = text.indexOf('\n', start)
      const end = newline === -1 ? text.length : newline
      if (end > start) out += `${chooseInLine(text, start, end, fateOf)}\n`
      start = end + 1
    }
    return { ...page, bytes: Buffer.from(out, 'latin1') }
  }
}

function decideFate(choice: ColumnChoice, rawKey: string): Fate | null {
  const name = decode(rawKey)
  if (choice.include && !choice.include.includes(name)) return null
  if (choice.exclude?.includes(name)) return null
  const renamed = choice.rename && Object.hasOwn(choice.rename, name) ? choice.rename[name]! : null
  const key = renamed === null ? rawKey : Buffer.from(JSON.stringify(renamed)).toString('latin1')
  return { key, hash: choice.hash?.includes(name) ?? false }
}

function chooseInLine(text: string, start: number, end: number, fateOf: (rawKey: string) => Fate | null): string {
  let out = '{'
  let at = skipSpace(text, start)
  if (text[at] !== '{') throw notJson(text, start, end)
  at = skipSpace(text, at + 1)
  while (text[at] !== '}') {
    const keyEnd = endOfString(text, at, end)
    const fate = fateOf(text.slice(at, keyEnd))
    at = skipSpace(text, keyEnd)
    if (text[at] !== ':') throw notJson(text, start, end)
    const valueStart = skipSpace(text, at + 1)
    const valueEnd = endOfValue(text, valueStart, end)
    if (fate) {
      const value = text.slice(valueStart, valueEnd)
      out += `${out.length > 1 ? ',' : ''}${fate.key}:${fate.hash ? hashValue(value) : value}`
    }
    at = skipSpace(text, valueEnd)
    if (text[at] === ',') at = skipSpace(text, at + 1)
    else if (text[at] !== '}' || at >= end) throw notJson(text, start, end)
  }
  return `${out}}`
}

function skipSpace(text: string, at: number): number {
  let index = at
  while (text[index] === ' ' || text[index] === '\t' || text[index] === '\r') index++
  return index
}

/** The index behind the closing quote of the string that begins here. */
function endOfString(text: string, at: number, end: number): number {
  if (text[at] !== '"') throw notJson(text, at, end)
  let quote = text.indexOf('"', at + 1)
  while (quote !== -1 && quote < end) {
    let slashes = 0
    while (text[quote - 1 - slashes] === '\\') slashes++
    if (slashes % 2 === 0) return quote + 1
    quote = text.indexOf('"', quote + 1)
  }
  throw notJson(text, at, end)
}

function endOfValue(text: string, at: number, end: number): number {
  const first = text[at]
  if (first === '"') return endOfString(text, at, end)
  let index = at
  let depth = 0
  while (index < end) {
    const character = text[index]
    if (character === '"') {
      index = endOfString(text, index, end)
      continue
    }
    if (character === '{' || character === '[') depth++
    else if (character === '}' || character === ']') {
      if (depth === 0) break
      depth--
    } else if (character === ',' && depth === 0) break
    index++
    if (depth === 0 && (first === '{' || first === '[')) break
  }
  if (index === at || depth > 0) throw notJson(text, at, end)
  while (' \t\r'.includes(text[index - 1]!)) index--
  return index
}

function hashValue(raw: string): string {
  if (raw === 'null') return 'null'
  const bytes = raw[0] === '"' ? Buffer.from(decode(raw)) : Buffer.from(raw, 'latin1')
  return `"${createHash('sha256').update(bytes).digest('hex')}"`
}

function decode(rawString: string): string {
  return JSON.parse(Buffer.from(rawString, 'latin1').toString('utf8'))
}

function notJson(text: string, start: number, end: number): ConnectorError {
  const shown = Buffer.from(text.slice(start, Math.min(end, start + 80)), 'latin1').toString('utf8')
  return new ConnectorError(
    'source',
    `The source gave a line that is no JSON object, so its columns can not be chosen: ${shown}`,
  )
}
