/**
 * Text columns of a source whose target column is stricter. As long as every text is a uuid, a uuid column stays one, as
 * whoever made the table wants it. The first text that is not makes the column text, because otherwise every run would
 * fail from then on. Typed rows are not parsed otherwise, so only these fields are looked at.
 */
import { unescapeField } from '../../types/tsv.ts'

/** Whether PostgreSQL reads the text by itself. */
type Fits = (text: string) => boolean

const UUID = /^\{?([0-9a-f]{4}-?){7}[0-9a-f]{4}\}?$/i

const isJson: Fits = (text) => {
  try {
    JSON.parse(text)
    // Neither json nor jsonb has a text with it.
    return !text.includes('\\u0000')
  } catch {
    return false
  }
}

const tests: Record<string, Fits> = { uuid: (text) => UUID.test(text), json: isJson, jsonb: isJson }

/** Null where the column is not one of these. */
export function findTest(type: string): Fits | null {
  return tests[type] ?? null
}

export interface WatchedField {
  /** The field's place in the rows. */
  place: number
  key: string
  fits: Fits
}

/** The watched fields that some row has an unfitting text in. */
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
