/**
 * Text columns of a source whose target column is stricter. As long as every text is a valid uuid, a uuid column stays
 * a uuid column. The first text that is not turns the column into text, because otherwise every further run would fail.
 * Typed rows are not parsed otherwise, so only these fields are checked.
 */
import { unescapeField } from '../../types/tsv.ts'

/** Whether PostgreSQL can parse the text. */
type Fits = (text: string) => boolean

const UUID = /^\{?([0-9a-f]{4}-?){7}[0-9a-f]{4}\}?$/i

const isJson: Fits = (text) => {
  try {
    JSON.parse(text)
    // Neither json nor jsonb can store it.
    return !text.includes('\\u0000')
  } catch {
    return false
  }
}

const tests: Record<string, Fits> = { uuid: (text) => UUID.test(text), json: isJson, jsonb: isJson }

/** Null if the column has no such test. */
export function findTest(type: string): Fits | null {
  return tests[type] ?? null
}

export interface WatchedField {
  /** The field's index in the rows. */
  place: number
  key: string
  fits: Fits
}

/** The watched fields with a text that does not fit in some row. */
export function findMisfits(rows: Buffer, watched: readonly WatchedField[]): WatchedField[] {
  const text = rows.toString('utf8')
  const left = new Set(watched)
  for (let start = 0; start < text.length && left.size > 0; ) {
    const end = text.indexOf('\n', start)
    const fields = text.slice(start, end).split('\t')
    for (const field of left) {
      const value = unescapeField(fields[field.place] ?? '\\N')
      if (value !== null && !field.fits(value)) left.delete(field)
    }
    start = end + 1
  }
  return watched.filter((field) => !left.has(field))
}
