/**
 * Writes the objects of one checkpoint. Lines are spooled until they are worth an object, or until the checkpoint ends; then
 * they are converted and uploaded while the next ones are spooled.
 *
 * An object's name is made of run, reading, checkpoint and number. A checkpoint that is sent again has the same lines, and
 * they are cut by their bytes, never by how they arrive: so the same name always has the same rows, and overwriting it changes
 * nothing.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { watchSpace } from '../../../blobs/disk-space.ts'
import type { Column, Page } from '../../contract.ts'
import { type Engine, openEngine } from '../../duckdb.ts'
import type { ObjectsWriter, ObjectWriterContext } from './context.ts'
import type { ManifestObject } from './manifest.ts'
import { ObjectColumns } from './object-columns.ts'
import { type Conversion, contentType, extensionOf, objectBytes } from './object-formats.ts'
import { createPartitioner, refuseManyFolders } from './partitions.ts'
import { Spool } from './spool.ts'

/** Of lines. Small enough that conversion and upload begin while the checkpoint still goes on. */
const OBJECT_BYTES = 32 * 1024 * 1024

/** Enough for one object after another; a run may have a second engine, which reads a file. */
const ENGINE_MB = 96

export class BatchWriter implements ObjectsWriter {
  readonly columns: ObjectColumns
  readonly #context: ObjectWriterContext
  readonly #divide: ReturnType<typeof createPartitioner> | null
  #folder: string | null = null
  #makeRoom: ((bytes: number) => void) | null = null
  #engine: Promise<Engine> | null = null
  #spools = new Map<string, Spool>()
  /** Of the lines that are spooled. */
  #bytes = 0
  #number = 0
  #files = 0
  #checkpoint: number
  #objects: ManifestObject[] = []
  #uploading: Promise<void> = Promise.resolve()

  /** `kept`: the columns of the target. */
  constructor(context: ObjectWriterContext, kept: Column[] | null) {
    this.#context = context
    this.#checkpoint = context.checkpoint + 1
    this.columns = new ObjectColumns(context, kept)
    const { partition_by } = context.config
    this.#divide = partition_by.length === 0 ? null : createPartitioner(partition_by)
  }

  async write({ bytes: lines, facts }: Pick<Page, 'bytes' | 'facts'>): Promise<void> {
    if (this.#context.config.format !== 'jsonl') this.columns.add({ bytes: lines, ...(facts && { facts }) })
    for (let start = 0; start < lines.length; ) {
      const end = this.#endOfObject(lines, start)
      await this.#spool(lines.subarray(start, end))
      if (this.#bytes >= OBJECT_BYTES) await this.#upload()
      start = end
    }
  }

  async finish(): Promise<ManifestObject[]> {
    await this.#upload()
    await this.#uploading
    const objects = this.#objects
    this.#objects = []
    this.#number = 0
    this.#checkpoint += 1
    return objects
  }

  async close(): Promise<void> {
    await this.#uploading.catch(() => undefined)
    await this.#closeEngine()
    if (this.#folder) await rm(this.#folder, { recursive: true, force: true })
    this.#folder = null
  }

  /** The first end of a line at which the object is large enough. */
  #endOfObject(lines: Buffer, start: number): number {
    const least = start + OBJECT_BYTES - this.#bytes
    if (least > lines.length) return lines.length
    const newline = lines.indexOf(10, Math.max(start, least - 1))
    return newline === -1 ? lines.length : newline + 1
  }

  async #spool(lines: Buffer): Promise<void> {
    this.#folder ??= await mkdtemp(join(tmpdir(), 'sluice-s3-'))
    this.#makeRoom ??= watchSpace(this.#folder)
    this.#makeRoom(lines.length)
    this.#bytes += lines.length
    if (!this.#divide) return this.#spoolOf('').add([lines], countLines(lines))
    for (const [folder, own] of this.#divide(lines)) await this.#spoolOf(folder).add(own, own.length)
  }

  #spoolOf(folder: string): Spool {
    const known = this.#spools.get(folder)
    if (known) return known
    const spool = new Spool(this.#folder!, String(++this.#files), folder)
    this.#spools.set(folder, spool)
    refuseManyFolders(this.#spools.size)
    return spool
  }

  /** Hands the spooled lines over, once the ones before them are stored. */
  async #upload(): Promise<void> {
    const spools = [...this.#spools.values()]
    this.#spools = new Map()
    this.#bytes = 0
    await this.#uploading
    if (spools.length === 0) return
    const columns = this.#context.config.format === 'jsonl' ? [] : this.columns.choose()
    const number = ++this.#number
    this.#uploading = this.#uploadAll(spools, number, { columns, lines: this.columns.lines })
    // Reported by whoever waits for it next.
    this.#uploading.catch(() => undefined)
  }

  async #uploadAll(spools: Spool[], number: number, known: Pick<Conversion, 'columns' | 'lines'>): Promise<void> {
    const { bucket, config, target, run_id, reading, signal, fault } = this.#context
    const name = `${run_id}-${reading}-${this.#checkpoint}-${number}.${extensionOf(config)}`
    for (const spool of spools) {
      await spool.flush()
      const key = `${target}${spool.folder}${name}`
      const object = bucket.writer(key, { 'content-type': contentType(config) })
      const engine = (): Promise<Engine> => this.#openEngine()
      try {
        await fault('s3:upload')
        for await (const block of objectBytes({ spool, shape: config, ...known, engine, signal }))
          await object.write(block)
        const { size } = await object.finish()
        this.#objects.push({ key, run_id, records: spool.records, bytes: size })
      } catch (error) {
        await object.abort()
        throw error
      }
      await spool.remove()
    }
    await this.#closeEngine()
  }

  /** DuckDB gives memory back when it is closed. */
  async #closeEngine(): Promise<void> {
    const engine = this.#engine
    this.#engine = null
    if (engine) (await engine.catch(() => null))?.close()
  }

  #openEngine(): Promise<Engine> {
    this.#engine ??= openEngine(this.#folder!, this.#context.signal, { memoryMb: ENGINE_MB })
    return this.#engine
  }
}

function countLines(lines: Buffer): number {
  let count = 0
  for (let at = lines.indexOf(10); at !== -1; at = lines.indexOf(10, at + 1)) count++
  return count
}
