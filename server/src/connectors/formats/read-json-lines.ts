import { isUtf8 } from 'node:buffer'
import { cutArray } from '../../json/array-lines.ts'
import { cutLines } from '../../json/lines.ts'
import { isObjectLine } from '../../json/validator.ts'
import { ConnectorError, type Page } from '../contract.ts'
import type { OpenFile } from './open-file.ts'

export interface LinesPage extends Page {
  /** How many bytes of the lines were read with it, a byte order mark not counted. */
  end: number
}

export const isJson = ({ format }: Pick<OpenFile, 'format'>): boolean => format === 'jsonl' || format === 'json'

/** One object per line. `partial` accepts an array that is cut off. */
export function linesOf(file: OpenFile, options: { partial?: boolean } = {}): AsyncIterable<Buffer> {
  const chunks = withoutMark(file.chunks)
  return file.format === 'json' ? cutArray(chunks, options) : chunks
}

/** The lines of a file, or the elements of its array, as pages. Each is checked to be an object, then passed on. */
export async function* readJsonLines(file: OpenFile, lines = linesOf(file)): AsyncGenerator<LinesPage> {
  const what = file.format === 'json' ? 'Element' : 'Line'
  let line = 0
  let end = 0
  try {
    for await (const bytes of cutLines(lines)) {
      const page = checkLines(bytes, what, line)
      line += page.lines
      end += bytes.length
      if (page.records > 0) yield { bytes: page.bytes, records: page.records, end }
    }
  } finally {
    await file.close()
  }
}

function checkLines(bytes: Buffer, what: string, before: number): { bytes: Buffer; records: number; lines: number } {
  if (!isUtf8(bytes))
    throw new ConnectorError(
      'source',
      `The file is not valid UTF-8 within the ${bytes.length} bytes from ${what.toLowerCase()} ${before + 1} on; save it as UTF-8.`,
    )
  const kept: Buffer[] = []
  let start = 0
  let lines = 0
  let records = 0
  while (start < bytes.length) {
    const end = bytes.indexOf(10, start) + 1
    lines++
    // Only lines that the fast check rejects are parsed: blank, very deep or invalid ones.
    const fast = isObjectLine(bytes, start, end - 1)
    if (fast || parseObjectLine(bytes.toString('utf8', start, end), `${what} ${before + lines}`)) {
      records++
      kept.push(bytes.subarray(start, end))
    }
    start = end
  }
  // Usually no line was dropped, and the page is returned without copying.
  return { bytes: records === lines ? bytes : Buffer.concat(kept), records, lines }
}

/** `place` starts the sentence of an error: "Line 3". */
function parseObjectLine(text: string, place: string): boolean {
  if (text.trim() === '') return false
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new ConnectorError('source', `${place} of the file is not valid JSON: ${(error as Error).message}`)
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return true
  throw new ConnectorError(
    'source',
    `${place} of the file is valid JSON but not an object; each line must be an object, like {"id": 1}. An array of objects is read with format json.`,
  )
}

/** Editors may add a byte order mark, which is not valid JSON. */
async function* withoutMark(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let first = true
  for await (const chunk of chunks) {
    yield first && chunk[0] === 0xef && chunk[1] === 0xbb && chunk[2] === 0xbf ? chunk.subarray(3) : chunk
    first = false
  }
}
