/**
 * Converts a table to Parquet chunk by chunk, two at a time, and joins what comes out. DuckDB with two threads and rows that
 * stay in order keeps far more of them in memory than two DuckDBs with one thread each, which a chunk at a time limits to
 * that chunk.
 */
import { rm } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { watchSpace } from '../../blobs/disk-space.ts'
import type { Page } from '../contract.ts'
import { type Engine, openEngine } from '../duckdb.ts'
import { freeBytes } from '../free-bytes.ts'
import { ParquetJoin } from './join-parquet.ts'

const LANES = Math.min(2, availableParallelism())
const ENGINE_MB = 96

const RESTART: Page = { bytes: Buffer.alloc(0), records: 0, restart: true }

/** Runs the query that writes a chunk to a path, and removes what it made for it. */
export type ChunkQuery = (output: string, run: (sql: string) => Promise<void>) => Promise<void>

interface Lane {
  engine: Promise<Engine> | null
  /** Rejected if its last chunk failed. */
  done: Promise<void>
}

export class ParquetChunks {
  readonly #folder: string
  readonly #signal: AbortSignal
  readonly #makeRoom: (bytes: number) => void
  #join = new ParquetJoin()
  readonly #lanes: Lane[] = Array.from({ length: LANES }, () => ({ engine: null, done: Promise.resolve() }))
  #outputs: string[] = []
  /** How many of them were passed on. */
  #passed = 0

  /** The folder is the only one that DuckDB can access. */
  constructor(folder: string, signal: AbortSignal) {
    this.#folder = folder
    this.#signal = signal
    this.#makeRoom = watchSpace(folder)
  }

  /** Begins with a chunk of so many bytes as soon as a lane is free, and gives the pages of those that are ready. */
  async *add(bytes: number, query: ChunkQuery): AsyncGenerator<Page> {
    const lane = this.#lanes[this.#outputs.length % LANES]!
    await lane.done
    this.#signal.throwIfAborted()
    // DuckDB's result is smaller than what it reads.
    this.#makeRoom(bytes)
    const output = join(this.#folder, `${this.#outputs.length}.parquet`)
    this.#outputs.push(output)
    lane.engine ??= openEngine(this.#folder, this.#signal, { memoryMb: ENGINE_MB })
    lane.done = query(output, (sql) => this.#run(lane, sql))
    // Reported by whoever waits for it next.
    lane.done.catch(() => undefined)
    yield* this.#pass(this.#outputs.length - LANES)
  }

  /** The pages of the rest; all records count with the last one. Each has to be a row, unless told otherwise. */
  async *finish(records?: number, rowEach = true): AsyncGenerator<Page> {
    await Promise.all(this.#lanes.map(({ done }) => done))
    yield* this.#pass(this.#outputs.length)
    const { rows } = this.#join
    if (records !== undefined && rowEach && rows !== records)
      throw new Error(`${rows} of ${records} records were converted`)
    yield { bytes: this.#join.finish(), records: records ?? rows }
  }

  /** Drops what was converted so far. */
  async *restart(): AsyncGenerator<Page> {
    await Promise.allSettled(this.#lanes.map(({ done }) => done))
    for (const output of this.#outputs) await rm(output, { force: true })
    for (const lane of this.#lanes) lane.done = Promise.resolve()
    if (this.#passed > 0) yield RESTART
    this.#join = new ParquetJoin()
    this.#outputs = []
    this.#passed = 0
  }

  async *#pass(count: number): AsyncGenerator<Page> {
    while (this.#passed < count) {
      const output = this.#outputs[this.#passed++]!
      for await (const bytes of this.#join.append(output)) yield { bytes, records: 0, release: () => freeBytes(bytes) }
      await rm(output)
    }
  }

  /** Gives DuckDB's memory back; the files stay. */
  async close(): Promise<void> {
    for (const lane of this.#lanes) {
      await lane.done.catch(() => undefined)
      const engine = await lane.engine?.catch(() => null)
      lane.engine = null
      engine?.close()
    }
  }

  async #run(lane: Lane, sql: string): Promise<void> {
    const engine = await lane.engine!
    try {
      await engine.connection.run(sql)
    } catch (error) {
      if (!(error as Error).message.startsWith('Out of Memory Error')) throw error
      // A chunk with very long lines.
      engine.close()
      lane.engine = openEngine(this.#folder, this.#signal)
      await (await lane.engine).connection.run(sql)
    }
  }
}
