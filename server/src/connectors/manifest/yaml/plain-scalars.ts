/** Scalars that may span lines: without quotes, in quotes, and literal or folded blocks. */
import type { Json } from '../../../json/json.ts'
import { fold, indentOf, type Lines, notPlain } from './lines.ts'
import { plainValue } from './scalars.ts'

/** A character that means something else at the start of a scalar without quotes. */
const INDICATOR = /^[&*!|>%@`"'#,[\]{}]|^[?:-](?: |$)/
const KEY_OR_COMMENT = /:(?: |$)| #/
const COMMENT = /^ +#/

/** A scalar without quotes. Its further lines are indented deeper than `parent`. */
export function readPlain(lines: Lines, parent: number): Json {
  const { text } = lines
  if (INDICATOR.test(text)) notPlain()
  const comment = text.indexOf(' #')
  if (comment !== -1) {
    const before = text.slice(0, comment).trimEnd()
    if (KEY_OR_COMMENT.test(before)) notPlain()
    lines.advance()
    return plainValue(before)
  }
  if (KEY_OR_COMMENT.test(text)) notPlain()
  const parts = [text]
  for (let next = lines.peek(); next !== undefined; next = lines.peek()) {
    const indent = indentOf(next)
    const part = next.slice(indent).trimEnd()
    if (part !== '' && (indent <= parent || part.startsWith('#'))) break
    if (KEY_OR_COMMENT.test(part)) notPlain()
    parts.push(part)
    lines.take()
  }
  lines.advance()
  return parts.length === 1 ? plainValue(text) : plainValue(fold(parts))
}

/** A scalar in quotes; what follows them may only be a comment. */
export function readQuoted(lines: Lines, parent: number): string {
  const quote = lines.text[0]!
  const parts: string[] = []
  let line = lines.text.slice(1)
  let end = closing(line, quote)
  while (end === -1) {
    parts.push(parts.length === 0 ? line : line.trim())
    if (quote === '"' && /\\[ \t]+$/.test(line)) notPlain()
    const next = lines.peek()
    if (next === undefined || (next.trim() !== '' && indentOf(next) <= parent)) notPlain()
    line = lines.take().trimStart()
    end = closing(line, quote)
  }
  const rest = line.slice(end + 1).trimEnd()
  if (rest !== '' && !COMMENT.test(rest)) notPlain()
  parts.push(line.slice(0, end))
  lines.advance()
  // A blank line at either end of several counts differently.
  if (parts.length > 1 && (parts[0]!.trim() === '' || parts.at(-1) === '')) notPlain()
  return unquote(quote === '"' ? foldEscaped(parts) : fold(parts), quote)
}

/** As `fold`, but a line that ends with a backslash goes on without a space. */
function foldEscaped(parts: readonly string[]): string {
  const joined: string[] = []
  let open = false
  for (const [index, part] of parts.entries()) {
    const escapes = index < parts.length - 1 && (/\\*$/.exec(part)?.[0].length ?? 0) % 2 === 1
    // A blank line after it is a line break, and not part of the fold.
    if (open && part === '') notPlain()
    const text = escapes ? part.slice(0, -1) : part
    if (open) joined[joined.length - 1] += text
    else joined.push(text)
    open = escapes
  }
  return fold(joined)
}

/** Where the quotes are closed, or -1. */
export function closing(text: string, quote: string): number {
  if (quote === "'") {
    for (let at = 0; at < text.length; at++) {
      if (text[at] !== quote) continue
      if (text[at + 1] !== quote) return at
      at++
    }
    return -1
  }
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === quote) return at
  }
  return -1
}

export function unquote(text: string, quote: string): string {
  if (quote === "'") return text.replaceAll("''", "'")
  if (!text.includes('\\')) return text
  try {
    return JSON.parse(`"${text.replace(/\n|\t|\\(?:x([\da-fA-F]{2})|.)/gs, jsonEscape)}"`)
  } catch {
    // An escape that is read elsewhere, or none at all.
    return notPlain()
  }
}

/** YAML's own escapes as those of JSON. */
function jsonEscape(found: string, code: string | undefined): string {
  if (code !== undefined) return `\\u00${code}`
  return ESCAPES[found] ?? found
}

const ESCAPES: Record<string, string> = {
  '\n': '\\n',
  '\t': '\\t',
  '\\ ': ' ',
  '\\0': '\\u0000',
  '\\a': '\\u0007',
  '\\e': '\\u001b',
  '\\v': '\\u000b',
  '\\_': '\\u00a0',
}

const HEADER = /^([|>])(-?)(?: +#.*)?$/

/** A block scalar, after `|` or `>`. Its lines are indented deeper than `parent`. */
export function readBlock(lines: Lines, parent: number): string {
  const [, style, chomp] = HEADER.exec(lines.text) ?? notPlain()
  const parts: string[] = []
  let indent = -1
  for (let next = lines.peek(); next !== undefined; next = lines.peek()) {
    const own = indentOf(next)
    const blank = own === next.length
    if (!blank && own <= parent) break
    if (!blank && indent === -1) indent = own
    // Spaces that are part of the text, or lines before the first that are indented otherwise.
    if (blank ? own > 0 && (indent === -1 || own > indent) : own < indent) notPlain()
    parts.push(blank ? '' : next.slice(indent))
    lines.take()
  }
  while (parts.at(-1) === '') parts.pop()
  if (parts.length === 0 || parts[0] === '') notPlain()
  // Without a line break at the end of the text the last line is not complete.
  if (lines.peek() === undefined && !lines.endsWithBreak) notPlain()
  lines.advance()
  return (style === '|' ? parts.join('\n') : foldBlock(parts)) + (chomp === '-' ? '' : '\n')
}

/** As `fold`, but a line that is indented further keeps the breaks on both of its sides. */
function foldBlock(parts: readonly string[]): string {
  let text = parts[0]!
  let last = text
  let blank = 0
  for (const part of parts.slice(1)) {
    if (part === '') blank++
    else {
      const kept = last.startsWith(' ') || part.startsWith(' ')
      const breaks = '\n'.repeat(kept ? blank + 1 : blank)
      text += (breaks === '' ? ' ' : breaks) + part
      last = part
      blank = 0
    }
  }
  return text
}
