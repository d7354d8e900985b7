/**
 * Parsing that loses no digit. A number that a JavaScript number would not write again as it was (too many digits, an
 * exponent, zeros after the point) becomes a raw JSON object, which JSON.stringify writes unchanged.
 */
import type { Json } from './json.ts'

/** The types of these functions are not in TypeScript's library yet. */
interface SourceText {
  parse(text: string, reviver: typeof keepDigits): Json
  rawJSON(text: string): unknown
  isRawJSON(value: unknown): boolean
}
const { parse: parseWithSource, rawJSON, isRawJSON } = JSON as unknown as SourceText

/** What a number may look like that does not survive; text that only looks like one costs time, nothing else. */
const SUSPECT = /\d[\d.]{15}|\.\d*0(?!\d)|\d[eE][+-]?\d|-0(?![.\d])/

export function parseExact(text: string): Json {
  return SUSPECT.test(text) ? parseWithSource(text, keepDigits) : (JSON.parse(text) as Json)
}

const keepDigits = (_key: string, value: unknown, { source }: { source?: string }): unknown =>
  typeof value === 'number' && source !== undefined && String(value) !== source ? rawJSON(source) : value

/** Whether it stands for a number. */
export const isRaw = (value: Json): boolean => typeof value === 'object' && value !== null && isRawJSON(value)

/** The number itself where a raw one stands for it; every other value unchanged. */
export function plainNumber(value: Json): Json {
  return isRaw(value) ? Number((value as unknown as { rawJSON: string }).rawJSON) : value
}
