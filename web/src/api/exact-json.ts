/** JSON whose numbers keep every digit: a record may hold more of them than a number of JavaScript can. */
export function parseExact(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown, { source }: { source?: string } = {}) =>
    typeof value === 'number' && source !== undefined && String(value) !== source ? (exact?.(source) ?? value) : value,
  )
}

/** Not in every browser yet; without it such a number is shown as JavaScript rounds it. */
const exact = (JSON as { rawJSON?: (text: string) => unknown }).rawJSON?.bind(JSON)

/** A value as a person reads it. */
export function sayValue(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

export function isNumber(value: unknown): boolean {
  return typeof value === 'number' || (typeof value === 'object' && value !== null && 'rawJSON' in value)
}
