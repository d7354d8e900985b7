/**
 * The last lines of a log, all or those that match. A log is read from its end, some chunks at a time, and only as far as
 * lines are wanted: the tail of a log at its limit costs no more than that of a short one.
 */
import { setImmediate as yieldToOthers } from 'node:timers/promises'
import { sql } from '../database/database.ts'
import { AppError } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { type Chunk, findLog, type LogStores, type NumberedLine, omissionOf, readBlob } from './log-reading.ts'

/** From the least to the most severe. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const

export interface LogSearch {
  q?: string
  /** This level and those above it. */
  level?: (typeof LOG_LEVELS)[number]
  /** Only lines with a lower number. */
  before?: number
  limit?: number
  /** The same as limit. */
  tail?: number
}

export interface FoundLines {
  logs: string
  numbers: number[]
  /** There are earlier lines that match. */
  more: boolean
}

const DEFAULT_LINES = 1000
/** A chunk has up to 64 KB. */
const CHUNKS_AT_ONCE = 16

export async function searchLog(
  stores: LogStores,
  actor: Actor,
  runId: string,
  search: LogSearch,
): Promise<FoundLines> {
  const { q, level, before = Number.POSITIVE_INFINITY } = search
  if (search.limit !== undefined && search.tail !== undefined)
    throw new AppError('invalid_input', 'The query: tail and limit mean the same; give only one of them')
  const limit = search.limit ?? search.tail ?? DEFAULT_LINES
  const { log_key } = await findLog(stores.db, actor, runId)
  const matches = createMatcher(q, level)
  const found: NumberedLine[] = []
  let later: number | null = null
  for await (const chunk of readBackwards(stores, runId, log_key, before)) {
    const lines = linesOf(chunk)
    const end = chunk.first_line + chunk.line_count
    if (later !== null && later > end && q === undefined && level === undefined)
      lines.push({ number: later - 1, text: omissionOf(later - end) })
    later = chunk.first_line
    for (const line of lines.reverse()) {
      if (line.number >= before || !matches(line.text)) continue
      if (found.length === limit) return toFound(found, true)
      found.push(line)
    }
  }
  return toFound(found, false)
}

function toFound(backwards: NumberedLine[], more: boolean): FoundLines {
  const lines = backwards.reverse()
  return { logs: lines.map(({ text }) => `${text}\n`).join(''), numbers: lines.map(({ number }) => number), more }
}

function linesOf({ first_line, lines }: Chunk): NumberedLine[] {
  return lines
    .replace(/\n$/, '')
    .split('\n')
    .map((text, index) => ({ number: first_line + index, text }))
}

/** A line begins with its time and its level. */
const LEVEL = /^\S+ (DEBUG|INFO|WARN|ERROR) /

function createMatcher(q: string | undefined, level: LogSearch['level']): (line: string) => boolean {
  const wanted = q?.toLowerCase()
  const least = level === undefined ? 0 : LOG_LEVELS.indexOf(level)
  return (line) => {
    if (least > 0) {
      const own = LEVEL.exec(line)?.[1]?.toLowerCase() as LogSearch['level']
      if (own === undefined || LOG_LEVELS.indexOf(own) < least) return false
    }
    return wanted === undefined || line.toLowerCase().includes(wanted)
  }
}

async function* readBackwards(
  { db, blobs }: LogStores,
  runId: string,
  logKey: string | null,
  before: number,
): AsyncGenerator<Chunk> {
  let key = logKey
  let first = before
  if (key === null) {
    const below = Number.isFinite(before) ? before : 2 ** 31 - 1
    for (let number = 2 ** 31 - 1; ; ) {
      const chunks = await db.query<Chunk & { number: number }>(sql`
        SELECT number, first_line, line_count, lines FROM run_log_chunks
         WHERE run_id = ${runId} AND number < ${number} AND first_line < ${below} ORDER BY number DESC LIMIT ${CHUNKS_AT_ONCE}`)
      yield* chunks
      number = chunks.at(-1)?.number ?? number
      first = chunks.at(-1)?.first_line ?? first
      if (chunks.length === CHUNKS_AT_ONCE) continue
      // The log may have been packed meanwhile: what is missing is then in its blob.
      key =
        (await db.first<{ log_key: string | null }>(sql`SELECT log_key FROM runs WHERE id = ${runId}`))?.log_key ?? null
      break
    }
  }
  if (key === null) return
  const chunks = await readBlob(blobs, key)
  for (const [index, chunk] of chunks.reverse().entries()) {
    // A search goes through megabytes of text, and this process serves others too.
    if (index % CHUNKS_AT_ONCE === CHUNKS_AT_ONCE - 1) await yieldToOthers()
    if (chunk.first_line < first) yield chunk
  }
}
