/**
 * A fast path: most records match their columns exactly, with the same keys in the same order, strings without escapes
 * and every value of its column's kind. Those are written while they are scanned, touching each byte once. For any
 * other record nothing is written and -1 is returned, and the general path takes it.
 */

import { endOfNested } from '../../json/record-scanner.ts'
import { kindOfString } from './iso-times.ts'
import { Kind, type Kinds } from './kinds.ts'
import { type Output, writeJson } from './tsv-output.ts'

export interface ExactColumn {
  /** The key with its quotes and colon. */
  head: Uint8Array
  accepts: Kinds
  json: boolean
  /** Numbers with more characters need a closer check. */
  sureInteger: number
  sureDecimal: number
}

/** 1 for bytes that may appear unescaped in a string. */
const plain = new Uint8Array(256).fill(1, 32)
plain[34] = 0
plain[92] = 0
/** 1 for digits and the minus, 2 for the point, 3 for exponents. */
const numeric = new Uint8Array(256)
numeric.fill(1, 48, 58)
numeric[45] = 1
numeric[46] = 2
for (const letter of 'eE+') numeric[letter.charCodeAt(0)] = 3

const wordTrue = Buffer.from('true')
const wordFalse = Buffer.from('false')

/** The start of the next record, or -1. The output must have room for the rest of the page. */
export function writeExactRecord(page: Buffer, from: number, columns: readonly ExactColumn[], output: Output): number {
  if (page[from] !== 123) return -1
  const begin = output.used
  const next = writeFields(page, from + 1, columns, output)
  if (next < 0) output.used = begin
  return next
}

function writeFields(page: Buffer, from: number, columns: readonly ExactColumn[], output: Output): number {
  const last = columns.length - 1
  let { bytes } = output
  let to = output.used
  let at = from
  for (let index = 0; index <= last; index += 1) {
    const column = columns[index]!
    const { head, accepts } = column
    const length = head.length
    for (let place = 0; place < length; place += 1) if (page[at + place] !== head[place]) return -1
    at += length
    let byte = page[at]!
    if (byte === 32) byte = page[++at]!
    if (byte === 34) {
      if (column.json) return -1
      const start = ++at
      byte = page[at]!
      while (plain[byte] === 1) {
        bytes[to++] = byte
        byte = page[++at]!
      }
      if (byte !== 34 || (accepts !== 255 && (accepts & kindOfString(page, start, at)) === 0)) return -1
      at += 1
    } else if (numeric[byte] === 1) {
      const start = at
      let form = 1
      let mark = 1
      while (mark !== 0) {
        if (mark > form) form = mark
        bytes[to++] = byte
        byte = page[++at]!
        mark = numeric[byte] ?? 0
      }
      if (accepts !== 255 && !fitsNumber(column, form, at - start)) return -1
    } else if (byte === 110) {
      if (page[at + 1] !== 117 || page[at + 2] !== 108 || page[at + 3] !== 108) return -1
      bytes[to++] = 92
      bytes[to++] = 78
      at += 4
    } else if (byte === 116 || byte === 102) {
      const word = byte === 116 ? wordTrue : wordFalse
      if ((accepts & Kind.boolean) === 0) return -1
      for (let place = 0; place < word.length; place += 1) {
        if (page[at + place] !== word[place]) return -1
        bytes[to++] = word[place]!
      }
      at += word.length
    } else {
      if ((byte !== 123 && byte !== 91) || (accepts & Kind.nested) === 0) return -1
      const end = endOfNested(page, at)
      // Replacements are counted, so such a value is left to the general path, which writes each value once.
      if (page.subarray(at, end).includes(92)) return -1
      output.used = to
      writeJson(output, page, at, end)
      bytes = output.bytes
      to = output.used
      at = end
    }
    byte = page[at]!
    if (index === last) {
      if (byte !== 125 || page[at + 1] !== 10) return -1
      bytes[to++] = 10
      output.used = to
      return at + 2
    }
    if (byte !== 44) return -1
    bytes[to++] = 9
    at += 1
    if (page[at] === 32) at += 1
  }
  return -1
}

function fitsNumber({ accepts, sureInteger, sureDecimal }: ExactColumn, form: number, length: number): boolean {
  if (form === 1) return (accepts & Kind.integer) !== 0 && length <= sureInteger
  return form === 2 && (accepts & Kind.number) !== 0 && length <= sureDecimal
}
