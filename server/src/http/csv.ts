/**
 * CSV that a spreadsheet opens without harm: a text that it would take for a formula is preceded by an apostrophe, which
 * it shows as text.
 */
const FORMULA = /^[\s]*[=+\-@|%]|^[\t\r\n]/

export function csvLine(fields: readonly unknown[]): string {
  return `${fields.map(csvField).join(',')}\r\n`
}

function csvField(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return `"${(FORMULA.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`
}
