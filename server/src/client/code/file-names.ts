/**
 * File names for objects. A name may be anything that a person typed, or that somebody planted: a path, a device of
 * Windows, the name of another object in other letters. The file name is only for people; the name itself is in the file.
 */
import { createHash } from 'node:crypto'

/** A file name has at most 255 bytes, with its ending and a hash. */
const MOST_BYTES = 180
const PLAIN = /^[\p{L}\p{N} _.()+,=@-]$/u
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i

/** One for each, without an ending. The same names give the same file names. */
export function makeFileNames(names: readonly string[]): string[] {
  const plain = names.map(escapeName)
  const uses = new Map<string, number>()
  for (const name of plain) uses.set(fold(name), (uses.get(fold(name)) ?? 0) + 1)
  return plain.map((name, index) => (uses.get(fold(name)) === 1 ? name : withHash(name, names[index]!)))
}

export const withHash = (fileName: string, name: string): string => `${fileName}~${hash(name)}`

/** Equal where a file system may take two names for one. */
export const fold = (name: string): string => name.normalize('NFKC').toUpperCase().toLowerCase()

function escapeName(name: string): string {
  const composed = name === name.normalize('NFC')
  const escaped = [...name]
    .map((character) => (PLAIN.test(character) && (composed || character < '\x80') ? character : percent(character)))
    .join('')
    .replace(/^[. -]/, percent)
    .replace(/[. ]$/, percent)
  const safe = DEVICE.test(escaped) ? `${percent(escaped[0]!)}${escaped.slice(1)}` : escaped
  return Buffer.byteLength(safe) <= MOST_BYTES ? safe : `${cut(safe)}~${hash(name)}`
}

const percent = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')

function cut(text: string): string {
  let bytes = 0
  let kept = ''
  for (const character of text) {
    bytes += Buffer.byteLength(character)
    if (bytes > MOST_BYTES) break
    kept += character
  }
  return kept.trimEnd()
}

const hash = (name: string): string => createHash('sha256').update(name).digest('hex').slice(0, 8)
