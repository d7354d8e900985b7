/** The type of a column of a query, from the definition that precedes its rows, in the words of information_schema. */
import type { ColumnDefinition } from '../shared/wire/packets.ts'

const UNSIGNED = 32
const ZEROFILL = 64
const BINARY_CHARSET = 63
/** The types of strings and blobs; which of them, only the character set says. */
const STRINGS = new Set([15, 249, 250, 251, 252, 253, 254])
const TINYINT = 1
const BIT = 16
/** TIMESTAMP, TIME, DATETIME. */
const TIMED = new Set([7, 11, 12])
const DECIMALS = new Set([0, 246])
const MAX_DIGITS = 65

const names: Record<number, string> = {
  1: 'tinyint',
  2: 'smallint',
  3: 'int',
  4: 'float',
  5: 'double',
  7: 'timestamp',
  8: 'bigint',
  9: 'mediumint',
  10: 'date',
  11: 'time',
  12: 'datetime',
  13: 'year',
  16: 'bit',
  242: 'vector',
  245: 'json',
  255: 'geometry',
}

export function typeOfDefinition(definition: ColumnDefinition): { type: string; isBinary: boolean } {
  const { type, flags, charset, length, decimals } = definition
  const unsigned = (flags & UNSIGNED) !== 0 ? ' unsigned' : ''
  const suffix = `${unsigned}${(flags & ZEROFILL) !== 0 ? ' zerofill' : ''}`
  if (DECIMALS.has(type)) {
    // The length counts the point and the sign.
    const precision = length - (decimals > 0 ? 1 : 0) - (unsigned === '' ? 1 : 0)
    const digits = Math.min(Math.max(precision, decimals, 1), MAX_DIGITS)
    return { type: `decimal(${digits},${Math.min(decimals, digits)})${suffix}`, isBinary: false }
  }
  const isBinary = charset === BINARY_CHARSET && STRINGS.has(type)
  const name = names[type]
  if (name === undefined) return { type: isBinary ? 'longblob' : 'longtext', isBinary }
  if (type === BIT || (type === TINYINT && length === 1)) return { type: `${name}(${length})${suffix}`, isBinary }
  const fraction = TIMED.has(type) && decimals > 0 && decimals <= 6 ? `(${decimals})` : ''
  return { type: `${name}${fraction}${suffix}`, isBinary }
}
