/**
 * Whether a file says what an object is. A reference of the author stays one, whatever it stands for: only the author knows. A
 * field that has its default may be there or not.
 */
import { isDeepStrictEqual } from 'node:util'
import { referencesIn } from '../../changes/references.ts'
import type { Fields } from './objects.ts'

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Inside of a config. */
export function saysValue(written: unknown, wanted: unknown): boolean {
  if (wanted === undefined) return written === undefined
  if (typeof written === 'string' && referencesIn(written).length > 0) return true
  if (Array.isArray(written) && Array.isArray(wanted))
    return written.length === wanted.length && written.every((item, index) => saysValue(item, wanted[index]))
  if (isFields(written) && isFields(wanted))
    return [...new Set([...Object.keys(written), ...Object.keys(wanted)])].every((name) =>
      saysValue(own(written, name), own(wanted, name)),
    )
  return isDeepStrictEqual(written, wanted)
}

/** A whole object: references are read in its config only. */
export function saysObject(written: Fields, wanted: Fields): boolean {
  const [a, b] = [withoutDefaults(written), withoutDefaults(wanted)]
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((name) =>
    name === 'config' ? saysValue(own(a, name), own(b, name)) : isDeepStrictEqual(own(a, name), own(b, name)),
  )
}

const own = (fields: Fields, name: string): unknown => (Object.hasOwn(fields, name) ? fields[name] : undefined)

const TRIMMED = ['domain', 'schedule']
const NULLABLE = ['description', 'color', 'domain', 'schedule', 'timezone', 'enabled', 'language']

/** As an export writes it. */
export function withoutDefaults(object: Fields): Fields {
  const entries = Object.entries(object).flatMap(([name, value]): [string, unknown][] => {
    const read = TRIMMED.includes(name) && typeof value === 'string' ? value.trim() : value
    const isDefault =
      (NULLABLE.includes(name) && read === null) ||
      (name === 'schedule' && read === '') ||
      (name === 'enabled' && read === true) ||
      (name === 'language' && read === 'python')
    return isDefault ? [] : [[name, read]]
  })
  return Object.fromEntries(entries)
}
