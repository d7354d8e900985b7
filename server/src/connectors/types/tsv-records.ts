/** Rows of tab-separated text as JSON lines, by the types of their columns (contract.ts has the notation of both). */
import type { Column } from '../contract.ts'
import { type BaseType, partsOf } from './column-types.ts'
import { unescapeField } from './tsv.ts'

type Write = (text: string) => string

/** Turns whole rows into as many lines. */
export function createRowReader(columns: readonly Column[]): (rows: Buffer) => Buffer {
  const keys = columns.map(({ name }) => `${JSON.stringify(name)}:`)
  const writers = columns.map(({ type }) => writerOf(type))
  return (rows) => {
    const lines = rows.toString('utf8').split('\n').slice(0, -1)
    return Buffer.from(lines.map((line) => `{${writeFields(line, keys, writers)}}\n`).join(''))
  }
}

function writeFields(line: string, keys: readonly string[], writers: readonly Write[]): string {
  const fields = line === '' && keys.length === 0 ? [] : line.split('\t')
  if (fields.length !== keys.length) throw new RangeError(`a row has ${fields.length} fields, not ${keys.length}`)
  return fields
    .map((field, at) => {
      const text = unescapeField(field)
      return keys[at]! + (text === null ? 'null' : writers[at]!(text))
    })
    .join(',')
}

/** How the text of a value of this type is written in JSON. */
export function writerOf(type: Column['type']): Write {
  const { base, list } = partsOf(type)
  const write = writers[base] ?? JSON.stringify
  return list ? (text) => writeList(text, write) : write
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/** NaN and the infinities are strings in JSON. */
const writeNumber: Write = (text) => (NUMBER.test(text) ? text : JSON.stringify(text))
const writeTime: Write = (text) => JSON.stringify(text.replace(/^(\d+-\d\d-\d\d) /, '$1T').replace(/\+00$/, '+00:00'))

const writers: Partial<Record<BaseType, Write>> = {
  boolean: (text) => (text === 't' ? 'true' : 'false'),
  int16: writeNumber,
  int32: writeNumber,
  int64: writeNumber,
  float32: writeNumber,
  float64: writeNumber,
  decimal: writeNumber,
  timestamp: writeTime,
  timestamptz: writeTime,
  // Blanks between values may be newlines; within a string they are escaped.
  json: (text) => text.replace(/[\r\n]/g, ' '),
}

const ELEMENT = /"((?:[^"\\]|\\.)*)"|[^,{}]+/y

/** `{1,NULL,"b c",{…}}` as an array. */
function writeList(text: string, write: Write): string {
  let out = ''
  // PostgreSQL writes bounds before a list whose first element is not the first.
  for (let at = /^\[[\d:[\]-]*\]=/.exec(text)?.[0].length ?? 0; at < text.length; ) {
    const sign = text[at]!
    if (sign === '{' || sign === '}' || sign === ',') {
      out += sign === '{' ? '[' : sign === '}' ? ']' : ','
      at++
      continue
    }
    ELEMENT.lastIndex = at
    const match = ELEMENT.exec(text)
    if (!match) throw new RangeError('a list is not closed')
    const [whole, quoted] = match
    out += quoted === undefined ? (whole === 'NULL' ? 'null' : write(whole)) : write(quoted.replace(/\\(.)/gs, '$1'))
    at += whole.length
  }
  return out
}
