/**
 * A text that may also be a number, true, false or other JSON. What is none of them is a text as it is; a text that looks
 * like one of them is written in quotation marks.
 */
const JSON_LIKE = /^(true|false|null|-?\d+(\.\d+)?|".*"|\[.*\]|\{.*\})$/s

export function writeScalar(value: unknown): string {
  if (value === undefined) return ''
  return typeof value === 'string' && typeof readScalar(value) === 'string' ? value : JSON.stringify(value)
}

export function readScalar(text: string): unknown {
  if (text === '') return undefined
  if (!JSON_LIKE.test(text)) return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
