/**
 * Fields straight from the text protocol into a page, byte by byte, without a JavaScript value in between. What a type
 * cannot contain is refused, so that a server cannot smuggle a tab or a newline into a number.
 */
import { shortestFloat32 } from '../../types/digits.ts'
import { Violation } from '../shared/wire/violation.ts'
import type { FieldForm } from './column.ts'

/** The page that is being written. */
export interface Output {
  bytes: Buffer
  used: number
}

/** Writes the value at `at` to `end`. False: it is a date that does not exist, and nothing was written. */
export type FieldWriter = (output: Output, bytes: Buffer, at: number, end: number) => boolean

/** 1: may stand in a number or a time. */
const plain = new Uint8Array(256)
for (const character of '0123456789+-.:eE ') plain[character.charCodeAt(0)] = 1

/** The letter that escapes a byte in tab-separated text, or 0. */
const tsvEscapes = new Uint8Array(256)
for (const [code, letter] of [
  [8, 'b'],
  [9, 't'],
  [10, 'n'],
  [11, 'v'],
  [12, 'f'],
  [13, 'r'],
  [92, '\\'],
] as const)
  tsvEscapes[code] = letter.charCodeAt(0)

const hexDigits = Buffer.from('0123456789abcdef')
const BACKSLASH = 92
const QUOTE = 34

function writePlain(output: Output, bytes: Buffer, at: number, end: number): boolean {
  const target = output.bytes
  let to = output.used
  for (let from = at; from < end; from += 1) {
    const byte = bytes[from]!
    if (plain[byte] !== 1) throw new Violation('it sent a value that is none of its column’s type')
    target[to++] = byte
  }
  output.used = to
  return true
}

function writeText(output: Output, bytes: Buffer, at: number, end: number): boolean {
  const target = output.bytes
  let to = output.used
  for (let from = at; from < end; from += 1) {
    const byte = bytes[from]!
    const letter = tsvEscapes[byte]!
    if (letter === 0) target[to++] = byte
    else {
      target[to++] = BACKSLASH
      target[to++] = letter
    }
  }
  output.used = to
  return true
}

function writeHex(output: Output, bytes: Buffer, at: number, end: number): boolean {
  const target = output.bytes
  let to = output.used
  target[to++] = BACKSLASH
  target[to++] = BACKSLASH
  target[to++] = 120
  for (let from = at; from < end; from += 1) {
    const byte = bytes[from]!
    target[to++] = hexDigits[byte >> 4]!
    target[to++] = hexDigits[byte & 15]!
  }
  output.used = to
  return true
}

const pair = (bytes: Buffer, at: number): number => (bytes[at]! - 48) * 10 + bytes[at + 1]! - 48

/** Whether the day that starts at `at` exists: MySQL keeps 0000-00-00, 2024-02-00 and, if told so, 2024-02-31. */
function isDay(bytes: Buffer, at: number, end: number): boolean {
  if (end - at < 10) return false
  const month = pair(bytes, at + 5)
  const day = pair(bytes, at + 8)
  if (month < 1 || month > 12 || day < 1) return false
  const year = pair(bytes, at) * 100 + pair(bytes, at + 2)
  if (year < 1) return false
  if (day <= 28) return true
  if (month === 2) return day === 29 && year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  return day <= 30 || (day === 31 && month !== 4 && month !== 6 && month !== 9 && month !== 11)
}

const zone = Buffer.from('+00')
const jsonZone = Buffer.from('+00:00')

function append(output: Output, suffix: Buffer): void {
  suffix.copy(output.bytes, output.used)
  output.used += suffix.length
}

function writeFloat32(output: Output, bytes: Buffer, at: number, end: number): boolean {
  const value = Number(bytes.toString('latin1', at, end))
  if (Number.isNaN(value)) throw new Violation('it sent a value that is none of its column’s type')
  output.used += output.bytes.write(shortestFloat32(value), output.used, 'latin1')
  return true
}

const isZero = (bytes: Buffer, at: number, end: number): boolean => end - at === 1 && bytes[at] === 48

/** Whether a value may be copied as it is. */
export type FieldTest = (bytes: Buffer, at: number, end: number) => boolean

function isPlain(bytes: Buffer, at: number, end: number): boolean {
  for (let from = at; from < end; from += 1) if (plain[bytes[from]!] !== 1) return false
  return true
}

function needsNoEscape(bytes: Buffer, at: number, end: number): boolean {
  for (let from = at; from < end; from += 1) if (tsvEscapes[bytes[from]!] !== 0) return false
  return true
}

const isPlainDay: FieldTest = (bytes, at, end) => isDay(bytes, at, end) && isPlain(bytes, at, end)

/** For the forms whose tab-separated text mostly is the server's own. */
export const tsvTests: Partial<Record<FieldForm, FieldTest>> = {
  number: isPlain,
  text: needsNoEscape,
  json: needsNoEscape,
  date: isPlainDay,
  timestamp: isPlainDay,
}

export const tsvWriters: Record<FieldForm, FieldWriter> = {
  number: writePlain,
  float32: writeFloat32,
  text: writeText,
  json: writeText,
  bytes: writeHex,
  boolean(output, bytes, at, end) {
    output.bytes[output.used++] = isZero(bytes, at, end) ? 102 : 116
    return true
  },
  date: (output, bytes, at, end) => isDay(bytes, at, end) && writePlain(output, bytes, at, end),
  timestamp: (output, bytes, at, end) => isDay(bytes, at, end) && writePlain(output, bytes, at, end),
  timestamptz(output, bytes, at, end) {
    if (!isDay(bytes, at, end)) return false
    writePlain(output, bytes, at, end)
    append(output, zone)
    return true
  },
}

/** The letter that escapes a byte in a JSON string; 1: as \u00xx. */
const jsonEscapes = new Uint8Array(256).fill(1, 0, 32)
for (const [code, letter] of [
  [8, 'b'],
  [9, 't'],
  [10, 'n'],
  [12, 'f'],
  [13, 'r'],
  [34, '"'],
  [92, '\\'],
] as const)
  jsonEscapes[code] = letter.charCodeAt(0)

function writeJsonString(output: Output, bytes: Buffer, at: number, end: number): boolean {
  const target = output.bytes
  let to = output.used
  target[to++] = QUOTE
  for (let from = at; from < end; from += 1) {
    const byte = bytes[from]!
    const letter = jsonEscapes[byte]!
    if (letter === 0) target[to++] = byte
    else {
      target[to++] = BACKSLASH
      if (letter === 1) {
        to += target.write('u00', to, 'latin1')
        target[to++] = hexDigits[byte >> 4]!
        target[to++] = hexDigits[byte & 15]!
      } else target[to++] = letter
    }
  }
  target[to++] = QUOTE
  output.used = to
  return true
}

/** JSON may contain newlines outside of its strings only: blanks in their place change nothing. */
function writeJsonValue(output: Output, bytes: Buffer, at: number, end: number): boolean {
  const target = output.bytes
  let to = output.used
  for (let from = at; from < end; from += 1) {
    const byte = bytes[from]!
    target[to++] = byte < 32 ? 32 : byte
  }
  output.used = to
  return true
}

function quoted(write: FieldWriter): FieldWriter {
  return (output, bytes, at, end) => {
    output.bytes[output.used++] = QUOTE
    if (!write(output, bytes, at, end)) {
      output.used -= 1
      return false
    }
    output.bytes[output.used++] = QUOTE
    return true
  }
}

/** With the T of ISO 8601. */
const writeTime: FieldWriter = (output, bytes, at, end) => {
  if (!isDay(bytes, at, end)) return false
  const start = output.used
  writePlain(output, bytes, at, end)
  if (output.bytes[start + 10] === 32) output.bytes[start + 10] = 84
  return true
}

const jsonWords = { true: Buffer.from('true'), false: Buffer.from('false') }

export const jsonWriters: Record<FieldForm, FieldWriter> = {
  number: writePlain,
  float32: writeFloat32,
  text: writeJsonString,
  json: writeJsonValue,
  bytes: quoted(writeHex),
  boolean(output, bytes, at, end) {
    append(output, isZero(bytes, at, end) ? jsonWords.false : jsonWords.true)
    return true
  },
  date: quoted(tsvWriters.date),
  timestamp: quoted(writeTime),
  timestamptz: quoted((output, bytes, at, end) => {
    if (!writeTime(output, bytes, at, end)) return false
    append(output, jsonZone)
    return true
  }),
}
