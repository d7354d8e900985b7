import { isUtf8 } from 'node:buffer'
import { cutArray } from '../../json/array-lines.ts'
import { cutLines } from '../../json/lines.ts'
import { isObjectLine } from '../../json/validator.ts'
import { ConnectorError, type Page, type Reading } from '../contract.ts'
import { gatherLines } from './gather-lines.ts'
import { LineSurvey } from './line-survey.ts'
import type { SurveyedLines } from './local-table.ts'
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

interface LinesOptions {
  /** Absent: all of the file. */
  lines?: AsyncIterable<Buffer>
  /** Whether the pages carry facts. */
  survey?: boolean | undefined
  /** A page is gone when the next one is asked for. */
  shared?: boolean
}

/** The lines of a file, or the elements of its array, as pages. Each is checked to be an object, then passed on. */
export async function* readJsonLines(
  file: OpenFile,
  { lines = linesOf(file), survey: surveys = false, shared = false }: LinesOptions = {},
): AsyncGenerator<LinesPage> {
  const survey = surveys ? new LineSurvey() : null
  const what = file.format === 'json' ? 'Element' : 'Line'
  let line = 0
  let end = 0
  try {
    for await (const bytes of shared ? gatherLines(lines) : cutLines(lines)) {
      const page = checkLines(bytes, { what, before: line, survey })
      line += page.lines
      end += bytes.length
      if (page.records === 0) continue
      yield { bytes: page.bytes, records: page.records, end, ...(survey && { facts: survey.take() }) }
    }
  } finally {
    await file.close()
  }
}

/** The lines for a destination that converts them as a whole, unless there are none. */
export async function readLineTable(file: OpenFile): Promise<Reading> {
  const pages = readJsonLines(file, { survey: true, shared: true })
  const first = await pages.next()
  if (first.done) return { columns: null, pages }
  async function* all(): AsyncGenerator<SurveyedLines> {
    try {
      yield surveyed(first.value)
      for await (const page of pages) yield surveyed(page)
    } finally {
      await pages.return(undefined)
    }
  }
  const table = { pages: all() }
  return { columns: null, table, pages: table.pages }
}

const surveyed = ({ bytes, records, facts }: LinesPage): SurveyedLines => ({ bytes, records, facts: facts! })

interface Check {
  /** What a line is called. */
  what: string
  /** How many lines came before. */
  before: number
  survey: LineSurvey | null
}

function checkLines(bytes: Buffer, { what, before, survey }: Check): { bytes: Buffer; records: number; lines: number } {
  if (!isUtf8(bytes))
    throw new ConnectorError(
      'source',
      `The file is not valid UTF-8 within the ${bytes.length} bytes from ${what.toLowerCase()} ${before + 1} on; save it as UTF-8.`,
    )
  const pieces: Buffer[] = []
  /** The end of the last line that was dropped. */
  let dropped = 0
  let start = 0
  let lines = 0
  let records = 0
  while (start < bytes.length) {
    lines++
    const next = survey?.scanLine(bytes, start) ?? -1
    if (next > 0) {
      records++
      start = next
      continue
    }
    const end = bytes.indexOf(10, start) + 1
    // Only lines that the fast check rejects are parsed: blank, very deep or invalid ones.
    const fast = isObjectLine(bytes, start, end - 1)
    if (fast || parseObjectLine(bytes.toString('utf8', start, end), `${what} ${before + lines}`)) {
      records++
      survey?.addLine(bytes, start, end - 1)
    } else {
      pieces.push(bytes.subarray(dropped, start))
      dropped = end
    }
    start = end
  }
  // Usually no line was dropped, and the page is returned without copying.
  return { bytes: dropped === 0 ? bytes : Buffer.concat([...pieces, bytes.subarray(dropped)]), records, lines }
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
