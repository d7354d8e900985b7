/**
 * Writes a part in blocks that are compressed off the main thread, two at a time, while the caller gathers the next one. A
 * small one is compressed sooner than another thread takes it.
 *
 *   zstd   how we store plain bytes: the frames and the table of seek-table.ts. It is invisible to users, because
 *          part-reader.ts gives the plain bytes back
 *   none   bytes of a format that is compressed already, stored as they are
 *   gzip   a format that the user chose: each block is a member of the .gz file, which is stored and served as it is
 *
 * Level 1, as measured on the rows of bench/loads.ts in frames of 1 MiB: JSON lines shrink 7.6 times and tab-separated
 * text 4.6 times, for 2 ms of CPU per MB. Levels 2 and 3 take up to half as much again and gain nothing worth it; level
 * -5 saves a quarter of the CPU and shrinks the same lines only 3.3 times.
 */
import { promisify } from 'node:util'
import { constants, gzip, zstdCompress, zstdCompressSync } from 'node:zlib'
import type { BlobStore, BlobWriter } from './blobs.ts'
import type { StoredPart } from './parts.ts'
import { FRAME_BYTES, writeSeekTable } from './seek-table.ts'

export type Packing = 'zstd' | 'gzip' | 'none'

export interface PartWriter {
  /** Resolves when more may be written. */
  write(bytes: Buffer): Promise<void>
  finish(): Promise<StoredPart>
  abort(): Promise<void>
}

const SMALL_BYTES = 64 * 1024
const compressZstd = promisify(zstdCompress)
const compressGzip = promisify(gzip)
/** Most frames fit, and are compressed in one go; others get further buffers. */
const RESULT_BYTES = 256 * 1024
const ZSTD_PARAMS = {
  [constants.ZSTD_c_compressionLevel]: 1,
  // So that a bit that flips in the store is noticed.
  [constants.ZSTD_c_checksumFlag]: 1,
}

/** A compressed part is told from others by its name too: an older version refuses it instead of serving it. */
export function openPartWriter(blobs: BlobStore, key: string, packing: Packing): PartWriter {
  const name = packing === 'zstd' ? `${key}.zst` : key
  const pack = packing === 'gzip' ? packGzip : packZstd
  const frame = createFrame()
  const blocks: number[] = []
  let size = 0
  let writer: BlobWriter | null = null
  let packed: Promise<Buffer> | null = null

  /** A block that is stored as it is, until the next one is. */
  let stored: Buffer | null = null

  const store = async (bytes: Buffer): Promise<void> => {
    writer ??= await blobs.writer(name)
    await writer.write(bytes)
    if (packing !== 'none') return
    if (stored) frame.reuse(stored)
    stored = bytes
  }
  const storeBlock = async (block: Promise<Buffer>): Promise<void> => {
    const bytes = await block
    blocks.push(bytes.length)
    await store(bytes)
  }
  const add = async (block: Buffer): Promise<void> => {
    const earlier = packed
    packed = packing === 'none' ? Promise.resolve(block) : pack(block).finally(() => frame.reuse(block))
    packed.catch(() => undefined)
    if (earlier) await storeBlock(earlier)
  }
  const end = async (): Promise<StoredPart> => {
    const rest = frame.take()
    if (rest) await add(rest)
    if (packed) await storeBlock(packed)
    if (packing === 'zstd') await store(writeSeekTable(blocks, size))
    writer ??= await blobs.writer(name)
    const { size: stored_bytes } = await writer.finish()
    return packing === 'zstd' ? { key: name, size, stored_bytes } : { key: name, size: stored_bytes }
  }
  const abort = async (): Promise<void> => writer?.abort()

  return {
    async write(bytes) {
      size += bytes.length
      for (let at = 0; at < bytes.length; ) {
        at += frame.fill(bytes, at)
        if (frame.isFull()) await add(frame.take()!)
      }
    },
    async finish() {
      try {
        return await end()
      } catch (error) {
        await abort()
        throw error
      }
    },
    abort,
  }
}

/** The result is copied, because it is a slice of a larger buffer that a store which collects blocks would keep alive. */
async function packZstd(block: Buffer): Promise<Buffer> {
  const chunkSize = Math.min(RESULT_BYTES, block.length + 1024)
  const options = { chunkSize, params: ZSTD_PARAMS }
  return Buffer.from(
    block.length <= SMALL_BYTES ? zstdCompressSync(block, options) : await compressZstd(block, options),
  )
}

const packGzip = (block: Buffer): Promise<Buffer> => compressGzip(block, { level: constants.Z_DEFAULT_COMPRESSION })

interface Frame {
  isFull(): boolean
  /** Copies as much as still fits, and returns how much that was. */
  fill(bytes: Buffer, from: number): number
  /** What it holds, or null. It is empty afterwards. */
  take(): Buffer | null
  /** What was taken is not needed any more. */
  reuse(block: Buffer): void
}

/**
 * Collects bytes for one frame. They are copied, because a small page can be a slice that keeps a large buffer alive, and
 * because the buffers can then be used again. Most outputs are small, so the first buffer is, too.
 */
function createFrame(): Frame {
  const spare: ArrayBufferLike[] = []
  let bytes: Buffer = Buffer.alloc(0)
  let used = 0
  const makeRoom = (wanted: number): void => {
    if (wanted <= bytes.length) return
    const free = spare.pop()
    const larger = free ? Buffer.from(free) : Buffer.allocUnsafeSlow(wanted <= SMALL_BYTES ? SMALL_BYTES : FRAME_BYTES)
    bytes.copy(larger, 0, 0, used)
    bytes = larger
  }
  return {
    isFull: () => used === FRAME_BYTES,
    fill(page, from) {
      const count = Math.min(page.length - from, FRAME_BYTES - used)
      makeRoom(used + count)
      page.copy(bytes, used, from, from + count)
      used += count
      return count
    },
    take() {
      const taken = used === 0 ? null : bytes.subarray(0, used)
      bytes = Buffer.alloc(0)
      used = 0
      return taken
    },
    reuse({ buffer }) {
      if (buffer.byteLength === FRAME_BYTES) spare.push(buffer)
    },
  }
}
