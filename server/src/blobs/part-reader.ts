/**
 * Reads the plain bytes of a part, whole or a range of them. Of a compressed part only the frames of the range are read,
 * one at a time. Whoever stored the part may have lied about it: a frame never takes more memory than the table allows,
 * and fewer or other bytes than the row says are an error, never a shorter file.
 */
import { promisify } from 'node:util'
import { constants, zstdDecompress } from 'node:zlib'
import type { BlobStore } from './blobs.ts'
import { DamagedPart, type StoredPart } from './parts.ts'
import { FRAME_BYTES, isPossible, placeOfTable, readSeekTable, type SeekTable } from './seek-table.ts'

export interface ByteRange {
  start: number
  /** Inclusive, as in HTTP. */
  end: number
}

const decompress = promisify(zstdDecompress)
/** A frame that asks for a larger window than a frame has bytes is refused before it is allocated. */
const WINDOW_LOG = Math.log2(FRAME_BYTES)

export async function* readPart(
  blobs: BlobStore,
  part: StoredPart,
  range: ByteRange = { start: 0, end: part.size - 1 },
): AsyncGenerator<Buffer> {
  const { key, size, stored_bytes } = part
  if (range.end < range.start) return
  if (stored_bytes === undefined) yield* readExactly(blobs, key, range)
  else yield* readFrames(blobs, { key, size, stored_bytes }, range)
}

export async function* readParts(blobs: BlobStore, parts: readonly StoredPart[]): AsyncGenerator<Buffer> {
  for (const part of parts) yield* readPart(blobs, part)
}

async function* readExactly(blobs: BlobStore, key: string, range: ByteRange): AsyncGenerator<Buffer> {
  let missing = range.end - range.start + 1
  for await (const chunk of (await blobs.read(key, range)) as AsyncIterable<Buffer>) {
    missing -= chunk.length
    if (missing < 0) break
    yield chunk
  }
  if (missing !== 0) throw new DamagedPart(`The stored part ${key} does not have the size that its run lists`)
}

async function* readFrames(
  blobs: BlobStore,
  part: Required<StoredPart>,
  { start, end }: ByteRange,
): AsyncGenerator<Buffer> {
  const table = await readTable(blobs, part)
  const first = Math.floor(start / FRAME_BYTES)
  const last = Math.floor(end / FRAME_BYTES)
  const from = table.offset(first)
  const to = table.offset(last) + table.storedBytes(last)
  const chunks = readExactly(blobs, part.key, { start: from, end: to - 1 })
  let frame = first
  for await (const stored of cutFrames(chunks, table, first)) {
    const plain = await unpack(part.key, stored, table.plainBytes(frame))
    const begin = frame * FRAME_BYTES
    yield plain.subarray(Math.max(start - begin, 0), Math.min(end - begin + 1, plain.length))
    frame += 1
  }
}

async function readTable(blobs: BlobStore, part: Required<StoredPart>): Promise<SeekTable> {
  const { key, size, stored_bytes } = part
  if (!isPossible(size, stored_bytes)) throw new DamagedPart(`The stored part ${key} has impossible sizes`)
  const chunks: Buffer[] = []
  for await (const chunk of readExactly(blobs, key, placeOfTable(size, stored_bytes))) chunks.push(chunk)
  return readSeekTable(Buffer.concat(chunks), part)
}

/** Cuts the bytes of a blob where the table says that a frame ends. */
async function* cutFrames(chunks: AsyncIterable<Buffer>, table: SeekTable, first: number): AsyncGenerator<Buffer> {
  let frame = first
  let missing = table.storedBytes(frame)
  let gathered: Buffer[] = []
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      if (missing === 0) missing = table.storedBytes(frame)
      const piece = chunk.subarray(at, at + missing)
      at += piece.length
      missing -= piece.length
      gathered.push(piece)
      if (missing > 0) continue
      yield gathered.length === 1 ? gathered[0]! : Buffer.concat(gathered)
      gathered = []
      frame += 1
    }
  }
}

async function unpack(key: string, stored: Buffer, size: number): Promise<Buffer> {
  const options = {
    // A little more than is needed, or Node looks for more output with another buffer of this size.
    chunkSize: size + 64,
    maxOutputLength: size,
    params: { [constants.ZSTD_d_windowLogMax]: WINDOW_LOG },
  }
  const plain = await decompress(stored, options).catch((error: Error) => {
    throw new DamagedPart(`The stored part ${key} cannot be decompressed: ${error.message}`, { cause: error })
  })
  if (plain.length === size) return plain
  throw new DamagedPart(`A frame of the stored part ${key} does not have the size that its table lists`)
}
