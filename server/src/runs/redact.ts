/**
 * Secrets that a run knows, kept out of its log and its error: as they are, and in the encodings in which they travel
 * (base64, URL, JSON). A secret of several lines is also hidden line by line, for a log is made of lines.
 */
export type Redact = (text: string) => string

const MASK = '********'
/** Shorter ones are too common as parts of other words to be hidden without hiding everything. */
const SHORTEST = 4
const SHORTEST_LINE = 12

export function createRedact(secrets: readonly string[]): Redact {
  const forms = new Set<string>()
  for (const secret of secrets) {
    if (secret.length < SHORTEST) continue
    for (const form of encodings(secret)) forms.add(form)
    for (const line of secret.split(/\r?\n/)) if (line.trim().length >= SHORTEST_LINE) forms.add(line.trim())
  }
  if (forms.size === 0) return (text) => text
  const longestFirst = [...forms].sort((a, b) => b.length - a.length)
  const pattern = new RegExp(longestFirst.map((form) => RegExp.escape(form)).join('|'), 'g')
  return (text) => text.replace(pattern, MASK)
}

function encodings(secret: string): string[] {
  const bytes = Buffer.from(secret)
  const url = encodeURIComponent(secret)
  return [
    secret,
    url,
    url.replaceAll('%20', '+'),
    url.toLowerCase(),
    JSON.stringify(secret).slice(1, -1),
    bytes.toString('hex'),
    ...base64Forms(bytes),
  ].filter((form) => form.length >= SHORTEST)
}

/** Inside a longer text (as in "user:password") the secret may begin at any of three offsets of the encoding. */
function base64Forms(bytes: Buffer): string[] {
  const forms = [bytes.toString('base64'), bytes.toString('base64url')]
  for (const offset of [0, 1, 2]) {
    const shifted = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64')
    const from = Math.ceil((offset * 8) / 6)
    const to = Math.floor(((offset + bytes.length) * 8) / 6)
    const inner = shifted.slice(from, to)
    if (inner.length >= 8) forms.push(inner, inner.replaceAll('+', '-').replaceAll('/', '_'))
  }
  return forms
}
