/**
 * Keeps the secrets that a run knows out of its log and its error: as they are, and in the encodings in which they
 * travel (base64, URL, JSON, hex). A secret of several lines is also hidden line by line, because logs are written line
 * by line.
 */
import { type Masking, maskTexts, SHORTEST } from './masking.ts'

export type Redact = Masking

const SHORTEST_LINE = 12
/**
 * Every text in a custom source's settings may be a secret, and there may be thousands; only this many are also
 * searched for in encoded forms.
 */
const SUREST = 200
const LONGEST_ENCODED = 16 * 1024

export function createRedact(secrets: readonly string[]): Redact {
  return maskTexts(formsOf([...new Set(secrets)].filter((secret) => secret.length >= SHORTEST)))
}

function* formsOf(secrets: readonly string[]): Generator<string> {
  const surest = secrets.slice(0, SUREST)
  yield* surest
  for (const secret of surest) if (secret.length <= LONGEST_ENCODED) yield* [...encodings(secret), ...linesOf(secret)]
  yield* secrets.slice(SUREST)
}

const linesOf = (secret: string): string[] =>
  secret
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line.length >= SHORTEST_LINE)

function encodings(secret: string): string[] {
  const bytes = Buffer.from(secret)
  const url = encodeURIComponent(secret)
  return [
    url,
    url.replaceAll('%20', '+'),
    url.toLowerCase(),
    JSON.stringify(secret).slice(1, -1),
    bytes.toString('hex'),
    ...base64Forms(bytes),
  ].filter((form) => form.length >= SHORTEST)
}

/** Inside a longer text (as in "user:password") the secret may start at any of three base64 offsets. */
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
