/**
 * Fields of tab-separated text: the contract's encoding `tsv`. A raw tab always ends a field and a raw newline a row,
 * because both are escaped inside values.
 */

const letters: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }
const escapes: Record<string, string> = {
  '\\': '\\\\',
  ...Object.fromEntries(Object.entries(letters).map(([letter, character]) => [character, `\\${letter}`])),
}

export function escapeField(text: string | null): string {
  if (text === null) return '\\N'
  return text.replace(/[\\\b\f\n\r\t\v]/g, (character) => escapes[character]!)
}

export function unescapeField(field: string): string | null {
  if (field === '\\N') return null
  return field.includes('\\') ? field.replace(/\\(.)/gs, (_, letter: string) => letters[letter] ?? letter) : field
}

/** Rows with only some of their fields. */
export function pickFields(bytes: Buffer, kept: readonly boolean[]): Buffer {
  const picked = Buffer.allocUnsafe(bytes.length)
  let to = 0
  let field = 0
  let first = true
  let from = 0
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]!
    if (byte !== 9 && byte !== 10) continue
    if (kept[field]) {
      if (!first) picked[to++] = 9
      to += bytes.copy(picked, to, from, at)
      first = false
    }
    field += 1
    if (byte === 10) {
      picked[to++] = 10
      field = 0
      first = true
    }
    from = at + 1
  }
  return picked.subarray(0, to)
}

/** Rows without U+0000, which PostgreSQL cannot store: each becomes U+FFFD, as in JSON lines. */
export function replaceZeros(bytes: Buffer): { bytes: Buffer; replaced: number } {
  if (!bytes.includes(0)) return { bytes, replaced: 0 }
  const parts = bytes.toString('latin1').split('\0')
  return { bytes: Buffer.from(parts.join('\u00ef\u00bf\u00bd'), 'latin1'), replaced: parts.length - 1 }
}
