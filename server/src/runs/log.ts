/**
 * The log of a run: lines with time, level and message. While the run executes they are small chunk rows, so nothing is
 * lost with a process and any machine can follow them; later a periodic job packs them into one compressed blob.
 *
 * The log is capped. Its head is kept, followed by a sliding tail: chunks between the two are deleted. Lines are
 * numbered over the whole run, so a reader sees the gap in the numbers and can say how many lines are missing.
 */

import type { Redact } from '../connectors/settings/redact.ts'
import { type Queryable, sql } from '../database/database.ts'
import { CHANNEL } from '../database/notifications.ts'
import { isTransient } from '../database/retry-while-unavailable.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

export interface LogChunk {
  line_count: number
  lines: string
}

const LINE_CHARACTERS = 32 * 1024
const FLUSH_MS = 100
/** While the database is unavailable. */
const RETRY_MS = 1000
const MAX_HELD_CHARACTERS = 4 * 1024 * 1024
const CHUNK_CHARACTERS = 64 * 1024
/** Readers renew their interest more often than this. */
const FOLLOWED_MS = 15_000

const formatLine = (level: LogLevel, message: string, at = new Date()): string =>
  `${at.toISOString()} ${level.toUpperCase().padEnd(5)} ${message}`

export interface RunLogWriter {
  write(level: LogLevel, message: string): void
  /** Writes the buffered lines. Never rejects: a log must not fail its run. */
  flush(): Promise<void>
  /** A reader is following: for some seconds each write is announced at once. */
  follow(): void
  /** The lines not yet written, for the transaction that ends the attempt. */
  rest(): Promise<LogChunk | null>
}

export interface RunLogOptions {
  redact: Redact
  /** The maximum size of the log: half for its head, half for its tail. */
  maxBytes: number
}

export function createRunLogWriter(
  db: Queryable,
  run: { id: string; attempt: number },
  { redact, maxBytes }: RunLogOptions,
): RunLogWriter {
  const lines = createLineBuffer()
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> | null = null
  let followedUntil = 0
  const trim = createTailTrimmer(db, run.id, maxBytes / 2)

  const writeChunk = async (chunk: LogChunk): Promise<void> => {
    const followed = performance.now() < followedUntil
    const number = await insertChunk(db, run.id, chunk, { attempt: run.attempt, notify: followed })
    // The lines are written; what was not trimmed now is trimmed with the next chunk.
    await trim(number, Buffer.byteLength(chunk.lines)).catch(() => {})
  }
  /**
   * One chunk at a time, in order. While the database is unavailable the lines are held, and tried again later. A chunk
   * that the database refuses is lost, and its lines are counted.
   */
  const writeAll = async (): Promise<void> => {
    try {
      while (lines.characters() > 0) {
        const chunk = lines.take(CHUNK_CHARACTERS)!
        try {
          await writeChunk(chunk)
        } catch (error) {
          if (isTransient(error)) {
            lines.putBack(chunk)
            timer ??= setTimeout(flush, RETRY_MS)
            return
          }
          lines.lose(chunk)
        }
      }
    } finally {
      writing = null
    }
  }
  const flush = (): Promise<void> => {
    clearTimeout(timer)
    timer = undefined
    if (lines.characters() > 0) writing ??= writeAll()
    return writing ?? Promise.resolve()
  }

  return {
    write(level, message) {
      for (const text of message.split(/\r\n|\r|\n/)) lines.add(formatLine(level, cut(redact(text))))
      if (lines.characters() >= CHUNK_CHARACTERS) void flush()
      else timer ??= setTimeout(flush, FLUSH_MS)
    },
    flush,
    follow() {
      followedUntil = performance.now() + FOLLOWED_MS
    },
    async rest() {
      await writing
      clearTimeout(timer)
      timer = undefined
      return lines.take(MAX_HELD_CHARACTERS)
    },
  }
}

/** Lines that wait to be written. Those that no longer fit, or could not be written, are counted, and the log says so. */
function createLineBuffer() {
  let held: string[] = []
  let characters = 0
  let lost = 0
  /** How many lost lines the chunk that was taken last reports. */
  let reported = 0

  return {
    characters: () => characters,
    add(line: string): void {
      if (characters + line.length > MAX_HELD_CHARACTERS) {
        lost++
        return
      }
      held.push(line)
      characters += line.length + 1
    },
    /** The first lines, up to about so many characters. Null if there is nothing to write, nor a loss to report. */
    take(atMost: number): LogChunk | null {
      let count = 0
      for (let size = 0; count < held.length && size < atMost; count++) size += held[count]!.length + 1
      const taken = held.slice(0, count)
      held = held.slice(count)
      characters = held.reduce((sum, line) => sum + line.length + 1, 0)
      reported = held.length === 0 ? lost : 0
      if (reported > 0) {
        const lines = reported === 1 ? '1 line was' : `${reported} lines were`
        taken.push(formatLine('warn', `… ${lines} lost here: they could not be written to the database`))
        lost = 0
      }
      return taken.length === 0 ? null : { line_count: taken.length, lines: `${taken.join('\n')}\n` }
    },
    putBack({ lines }: LogChunk): void {
      held = [...lines.trimEnd().split('\n'), ...held]
      characters += lines.length
    },
    /** The chunk that was taken last could not be written. */
    lose({ line_count }: LogChunk): void {
      lost += reported > 0 ? line_count - 1 + reported : line_count
    },
  }
}

/** Deletes chunks between the head and the sliding tail, including those of earlier attempts. */
function createTailTrimmer(
  db: Queryable,
  runId: string,
  halfBytes: number,
): (number: number, bytes: number) => Promise<void> {
  let written = 0
  let headChunks = 0
  let tailBytes = 0
  let looked = false
  const tail: { number: number; bytes: number }[] = []

  const take = (number: number, bytes: number): void => {
    written += bytes
    if (written <= halfBytes) {
      headChunks = number
      return
    }
    tail.push({ number, bytes })
    tailBytes += bytes
  }
  return async (number, bytes) => {
    if (looked) take(number, bytes)
    else for (const chunk of await listChunks(db, runId)) take(chunk.number, chunk.bytes)
    looked = true
    let dropped = 0
    while (tailBytes > halfBytes && tail.length > 1) {
      const oldest = tail.shift()!
      tailBytes -= oldest.bytes
      dropped = oldest.number
    }
    if (dropped > 0)
      await db.execute(
        sql`DELETE FROM run_log_chunks WHERE run_id = ${runId} AND number > ${headChunks} AND number <= ${dropped}`,
      )
  }
}

const listChunks = (db: Queryable, runId: string): Promise<{ number: number; bytes: number }[]> =>
  db.query(sql`SELECT number, octet_length(lines) AS bytes FROM run_log_chunks WHERE run_id = ${runId} ORDER BY number`)

const cut = (line: string) => {
  const clean = line.replaceAll('\0', '\\0')
  const more = clean.length - LINE_CHARACTERS
  // After cutting: that may leave half of a character, which PostgreSQL takes for an error.
  return more <= 0
    ? clean.toWellFormed()
    : `${clean.slice(0, LINE_CHARACTERS).toWellFormed()} … (${more} more characters)`
}

/** Appends a chunk and returns its number: 0 if the attempt no longer owns the run. */
async function insertChunk(
  db: Queryable,
  runId: string,
  chunk: LogChunk,
  { attempt, notify }: { attempt: number | null; notify: boolean },
): Promise<number> {
  const append = sql`SELECT append_run_log(${runId}, ${attempt}, ${chunk.line_count}, ${chunk.lines}) AS number`
  // Commits that send a NOTIFY are serialized, so none is sent unless a reader is following.
  const row = await db.first<{ number: number }>(
    notify ? sql`${append}, pg_notify(${CHANNEL}, ${`log ${runId}`})` : append,
  )
  return row!.number
}

export const oneLine = (level: LogLevel, message: string): LogChunk => ({
  line_count: 1,
  lines: `${formatLine(level, message)}\n`,
})

export const appendLine = (tx: Queryable, runId: string, level: LogLevel, message: string): Promise<number> =>
  insertChunk(tx, runId, oneLine(level, message), { attempt: null, notify: false })
