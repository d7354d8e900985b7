/**
 * The stage of a run: what was read, as numbered part objects `<organization>/runs/<run>/<attempt>-<n>.part`. A part is
 * durable before the checkpoint that lists it, and the list is saved conditionally on the attempt, so the parts of an
 * attempt that lost its run never count. At the end the list is the output; the parts are not concatenated.
 *
 * `seal` hands the current part over to be made durable and returns at once with a promise, so that reading and the
 * disk sync run in parallel.
 */
import { promisify } from 'node:util'
import { constants, gzip } from 'node:zlib'
import type { BlobStore, BlobWriter } from '../blobs/blobs.ts'
import type { Part } from './job.ts'

/** Small pages are collected until they are worth a write; larger ones are written directly. */
const WRITE_BYTES = 64 * 1024
/** Each block becomes a separate gzip member: a file may have any number, and two threads can work in parallel. */
const GZIP_BLOCK_BYTES = 1024 * 1024
const compress = promisify(gzip)

export interface StageOptions {
  blobs: BlobStore
  /** `<organization>/runs/<run>/` */
  prefix: string
  attempt: number
  gzip: boolean
}

export interface Stage {
  /** Resolves when more may be appended. The bytes must not change afterwards. */
  append(bytes: Buffer, records: number): Promise<void>
  /** Ends the current part. Null if nothing was appended since the last one. */
  seal(checkpoint: number): Promise<Part | null>
  /** Drops the unsealed part. */
  abort(): Promise<void>
}

export function openStage(options: StageOptions): Stage {
  let current: OpenPart | null = null
  let number = 0
  return {
    append(bytes, records) {
      current ??= openPart(options, `${options.prefix}${options.attempt}-${++number}.part`)
      return current.append(bytes, records)
    },
    async seal(checkpoint) {
      const part = current
      current = null
      return part ? { checkpoint, ...(await part.finish()) } : null
    },
    async abort() {
      const part = current
      current = null
      await part?.abort()
    },
  }
}

/** For pipelines that keep no output: we store none of the data. */
export const noStage: Stage = {
  async append() {},
  async seal() {
    return null
  },
  async abort() {},
}

interface OpenPart {
  append(bytes: Buffer, records: number): Promise<void>
  finish(): Promise<{ key: string; size: number; records: number }>
  abort(): Promise<void>
}

function openPart(options: StageOptions, key: string): OpenPart {
  const flushBytes = options.gzip ? GZIP_BLOCK_BYTES : WRITE_BYTES
  let gathered: Buffer[] = []
  let gatheredBytes = 0
  let total = 0
  let writer: BlobWriter | null = null
  let compressing: Promise<Buffer> | null = null

  const write = async (bytes: Buffer): Promise<void> => {
    writer ??= await options.blobs.writer(key)
    await writer.write(bytes)
  }
  const flush = async (): Promise<void> => {
    if (gatheredBytes === 0) return
    const block = gathered.length === 1 ? gathered[0]! : Buffer.concat(gathered, gatheredBytes)
    gathered = []
    gatheredBytes = 0
    if (!options.gzip) return write(block)
    const earlier = compressing
    compressing = compress(block, { level: constants.Z_DEFAULT_COMPRESSION })
    compressing.catch(() => undefined)
    if (earlier) await write(await earlier)
  }
  return {
    async append(bytes, records) {
      total += records
      gathered.push(bytes)
      gatheredBytes += bytes.length
      if (gatheredBytes >= flushBytes) await flush()
    },
    async finish() {
      await flush()
      if (compressing) await write(await compressing)
      writer ??= await options.blobs.writer(key)
      const { size } = await writer.finish()
      return { key, size, records: total }
    },
    async abort() {
      await writer?.abort()
    },
  }
}

/**
 * Removes the objects of a run that its output does not list: parts of lost attempts, and what a conversion replaced.
 */
export async function removeStrayParts(blobs: BlobStore, prefix: string, keep: readonly Part[]): Promise<number> {
  const kept = new Set(keep.map((part) => part.key))
  const stray: string[] = []
  for await (const blob of blobs.list(prefix)) {
    if (blob.key.endsWith('.part') && !kept.has(blob.key)) stray.push(blob.key)
  }
  if (stray.length > 0) await blobs.delete(stray)
  return stray.length
}
