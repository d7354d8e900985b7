/**
 * Stores a CSV in chunks of whole rows while it is read. They stay until their folder is removed, so that they can be read
 * again, each by itself or joined to the file that they were.
 */
import { createReadStream } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { watchSpace } from '../../blobs/disk-space.ts'
import { gatherLines } from './gather-lines.ts'

/** A chunk becomes a row group, which is in memory as a whole. */
const CHUNK_BYTES = 2 * 1024 * 1024
const QUOTE = 34
const NEWLINE = 10
const RETURN = 13
const INCOMPLETE = 0
const UNCLEAR = -1

export interface CsvChunk {
  path: string
  bytes: number
  /** It begins with the header, if the file has one. */
  first: boolean
}

export class CsvChunks {
  readonly #folder: string
  readonly #pages: AsyncGenerator<Buffer>
  readonly #makeRoom: (bytes: number) => void
  readonly #stored: CsvChunk[] = []
  /** Where its rows end could not be told, so chunks end anywhere. */
  #divided = true
  #failure: { error: unknown } | null = null

  /** The quote is the usual one, and is escaped by itself. */
  constructor(folder: string, input: AsyncIterable<Buffer>, delimiter: string, chunkBytes = CHUNK_BYTES) {
    this.#folder = folder
    this.#makeRoom = watchSpace(folder)
    const code = delimiter.charCodeAt(0)
    const endOf = (bytes: Buffer): number => {
      if (this.#divided) {
        const end = endOfRows(bytes, code)
        if (end > 0 || (end === INCOMPLETE && bytes.length < 2 * chunkBytes)) return end
        this.#divided = false
      }
      return bytes.length
    }
    this.#pages = gatherLines(input, { pageBytes: chunkBytes, endOf })
  }

  /** From the first one on, at every call. Throws if the file cannot be divided; its rest is then not read yet. */
  async *all(): AsyncGenerator<CsvChunk> {
    for (let at = 0; ; at += 1) {
      const chunk = this.#stored[at] ?? (await this.#store())
      if (!this.#divided) throw new Error('the rows of the file cannot be divided')
      if (chunk === null) return
      yield chunk
    }
  }

  /** Joins the chunks to one file; they are gone then. */
  async join(path: string): Promise<void> {
    while (await this.#store());
    const [first, ...others] = this.#stored
    if (first) await rename(first.path, path)
    const file = await open(path, 'a', 0o600)
    try {
      for (const chunk of others) {
        this.#makeRoom(chunk.bytes)
        await file.writeFile(createReadStream(chunk.path))
        await rm(chunk.path)
      }
    } finally {
      await file.close()
    }
  }

  /** Ends the reading of the file. */
  async close(): Promise<void> {
    await this.#pages.return(undefined)
  }

  /** The next chunk, or null at the end of the file. */
  async #store(): Promise<CsvChunk | null> {
    // A stream that broke would look like one that has ended.
    if (this.#failure) throw this.#failure.error
    try {
      const { value, done } = await this.#pages.next()
      if (done) return null
      const first = this.#stored.length === 0
      const chunk = { path: join(this.#folder, `${this.#stored.length}.csv`), bytes: value.length, first }
      this.#makeRoom(value.length)
      const file = await open(chunk.path, 'wx', 0o600)
      await file.writeFile(value).finally(() => file.close())
      this.#stored.push(chunk)
      return chunk
    } catch (error) {
      this.#failure = { error }
      throw error
    }
  }
}

/**
 * Where the last whole row of these ends, which begin with a row; 0 if not even the first one does. Negative if quotes stand
 * where readers differ: within a cell, or beside blanks.
 */
function endOfRows(bytes: Buffer, delimiter: number): number {
  for (let at = 0; ; ) {
    const quote = bytes.indexOf(QUOTE, at)
    if (quote === -1) return Math.max(at, bytes.lastIndexOf(NEWLINE) + 1)
    const start = Math.max(at, bytes.subarray(0, quote).lastIndexOf(NEWLINE) + 1)
    const end = endOfRow(bytes, start, delimiter)
    if (end === UNCLEAR) return UNCLEAR
    if (end === INCOMPLETE) return start
    at = end
  }
}

function endOfRow(bytes: Buffer, start: number, delimiter: number): number {
  for (let at = start; ; at += 1) {
    at = bytes[at] === QUOTE ? endOfQuoted(bytes, at) : endOfPlain(bytes, at, delimiter)
    if (at < 0) return UNCLEAR
    if (bytes[at] === RETURN) at += 1
    const byte = bytes[at]
    if (byte === undefined) return INCOMPLETE
    if (byte === NEWLINE) return at + 1
    if (byte !== delimiter || bytes[at - 1] === RETURN) return UNCLEAR
  }
}

/** After the closing quote; the end of the bytes if there is none. */
function endOfQuoted(bytes: Buffer, start: number): number {
  for (let at = start; ; at += 1) {
    at = bytes.indexOf(QUOTE, at + 1)
    if (at === -1) return bytes.length
    if (bytes[at + 1] !== QUOTE) return at + 1
  }
}

function endOfPlain(bytes: Buffer, start: number, delimiter: number): number {
  for (let at = start; ; at += 1) {
    const byte = bytes[at]
    if (byte === undefined || byte === delimiter || byte === NEWLINE) return at
    if (byte === QUOTE) return UNCLEAR
  }
}
