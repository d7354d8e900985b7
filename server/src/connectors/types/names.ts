/** Column and table names that a database accepts: not empty, not too long, no control characters, all distinct. */
import { createHash } from 'node:crypto'

interface NameRules {
  maxBytes: number
  /** Whether `Id` and `id` are different names. */
  caseSensitive: boolean
  /** Characters that a name may not contain. */
  refused: RegExp
  /** Whether a name may end in a blank. */
  endsInBlank: boolean
}

export const postgresNames: NameRules = {
  maxBytes: 63,
  caseSensitive: true,
  refused: /[\u0000-\u001f\u007f]/gu,
  endsInBlank: true,
}
export const mysqlNames: NameRules = {
  maxBytes: 64,
  caseSensitive: false,
  refused: /[\u0000-\u001f\u007f\u{10000}-\u{10ffff}]/gu,
  endsInBlank: false,
}
/** A column has a file of its name, in which every character but letters and digits takes three. */
export const clickhouseNames: NameRules = {
  maxBytes: 80,
  caseSensitive: true,
  refused: /[\u0000-\u001f\u007f]/gu,
  endsInBlank: true,
}

/** Assigns one safe name per key; the same keys in the same order always give the same names. */
export function createNamer(rules: NameRules, taken: Iterable<string> = []): (key: string) => string {
  const fold = (name: string) => (rules.caseSensitive ? name : name.toLowerCase())
  const used = new Set([...taken].map(fold))
  return (key) => {
    let name = makeSafe(key, rules)
    for (let n = 2; used.has(fold(name)); n += 1) name = shorten(makeSafe(key, rules), rules.maxBytes, `_${n}`)
    used.add(fold(name))
    return name
  }
}

export function makeSafe(key: string, rules: NameRules): string {
  // Lone surrogates have no UTF-8 form.
  const wellFormed = key.toWellFormed().replace(rules.refused, '_')
  const clean = rules.endsInBlank ? wellFormed : replaceLastBlanks(wellFormed)
  if (clean === '') return '_'
  if (Buffer.byteLength(clean) <= rules.maxBytes) return clean
  // Two long keys with the same prefix stay distinct, and each keeps its name from run to run.
  const digest = createHash('sha256').update(key).digest('hex').slice(0, 8)
  return shorten(clean, rules.maxBytes, `_${digest}`)
}

/** Not by a regular expression, which would take quadratic time on long runs of blanks. */
function replaceLastBlanks(name: string): string {
  let end = name.length
  while (end > 0 && name[end - 1] === ' ') end -= 1
  return name.slice(0, end).padEnd(name.length, '_')
}

function shorten(name: string, maxBytes: number, suffix: string): string {
  const room = maxBytes - suffix.length
  let short = ''
  let bytes = 0
  for (const character of name) {
    bytes += Buffer.byteLength(character)
    if (bytes > room) break
    short += character
  }
  return short + suffix
}
