/**
 * The layout of a compressed part: zstd frames that are independent of each other, then a table of their sizes in a
 * skippable frame, as the "zstd seekable format" defines it. `zstd -d` and every other reader of zstd skip the table.
 *
 *   frame … frame | 0x184D2A5E, length | (compressed size, plain size) per frame | count, flags, 0x8F92EAB1
 *
 * The table is in the blob and not in the run's row. The list of parts is saved whole at every checkpoint, so it has to
 * stay short; and a part that explains itself can be read without our database.
 *
 * Every frame except the last holds exactly FRAME_BYTES. So the size of a part says how long its table is, which frame an
 * offset is in, and how much memory a frame can take: nothing that a blob says is trusted with an allocation.
 */
import { DamagedPart, type StoredPart } from './parts.ts'

export const FRAME_BYTES = 1024 * 1024
/** zstd stores what it cannot compress with a few bytes more per block; this is far above that. */
const LARGEST_STORED_FRAME = FRAME_BYTES + 64 * 1024
/** 32 MB of table, for parts of 4 TB. */
const MAX_FRAMES = 4 * 1024 * 1024

const SKIPPABLE_MAGIC = 0x184d2a5e
const SEEKABLE_MAGIC = 0x8f92eab1
const HEAD_BYTES = 8
const ENTRY_BYTES = 8
const FOOT_BYTES = 9

const countFrames = (size: number): number => Math.ceil(size / FRAME_BYTES)
const tableBytes = (size: number): number => HEAD_BYTES + countFrames(size) * ENTRY_BYTES + FOOT_BYTES

/** Whether a part with these sizes can exist. */
export const isPossible = (size: number, storedBytes: number): boolean =>
  countFrames(size) <= MAX_FRAMES && storedBytes >= tableBytes(size)

/** Where the table of a part is in its blob; `end` is inclusive. */
export const placeOfTable = (size: number, storedBytes: number): { start: number; end: number } => ({
  start: storedBytes - tableBytes(size),
  end: storedBytes - 1,
})

/** `frames`: the compressed sizes in order. */
export function writeSeekTable(frames: readonly number[], size: number): Buffer {
  if (frames.length > MAX_FRAMES) throw new Error('a part of an output would be larger than 4 TB')
  const table = Buffer.alloc(tableBytes(size))
  table.writeUInt32LE(SKIPPABLE_MAGIC, 0)
  table.writeUInt32LE(table.length - HEAD_BYTES, 4)
  frames.forEach((stored, index) => {
    table.writeUInt32LE(stored, HEAD_BYTES + index * ENTRY_BYTES)
    table.writeUInt32LE(plainBytes(size, index), HEAD_BYTES + index * ENTRY_BYTES + 4)
  })
  table.writeUInt32LE(frames.length, table.length - FOOT_BYTES)
  table.writeUInt32LE(SEEKABLE_MAGIC, table.length - 4)
  return table
}

const plainBytes = (size: number, frame: number): number => Math.min(FRAME_BYTES, size - frame * FRAME_BYTES)

export interface SeekTable {
  /** The compressed size of a frame. */
  storedBytes(frame: number): number
  plainBytes(frame: number): number
  /** Where the frame begins in the blob. */
  offset(frame: number): number
}

/** Reads the last bytes of a blob. Everything in them has to agree with the sizes of the part. */
export function readSeekTable(table: Buffer, { key, size, stored_bytes }: Required<StoredPart>): SeekTable {
  const frames = countFrames(size)
  const storedBytes = (frame: number): number => table.readUInt32LE(HEAD_BYTES + frame * ENTRY_BYTES)
  const isTable =
    table.length === tableBytes(size) &&
    table.readUInt32LE(0) === SKIPPABLE_MAGIC &&
    table.readUInt32LE(4) === table.length - HEAD_BYTES &&
    table.readUInt32LE(table.length - FOOT_BYTES) === frames &&
    table[table.length - 5] === 0 &&
    table.readUInt32LE(table.length - 4) === SEEKABLE_MAGIC
  let total = table.length
  for (let frame = 0; isTable && frame < frames; frame++) {
    if (storedBytes(frame) === 0 || storedBytes(frame) > LARGEST_STORED_FRAME) break
    if (table.readUInt32LE(HEAD_BYTES + frame * ENTRY_BYTES + 4) !== plainBytes(size, frame)) break
    total += storedBytes(frame)
  }
  if (!isTable || total !== stored_bytes) throw new DamagedPart(`The stored part ${key} has no valid seek table`)
  return {
    storedBytes,
    plainBytes: (frame) => plainBytes(size, frame),
    offset(frame) {
      let offset = 0
      for (let before = 0; before < frame; before++) offset += storedBytes(before)
      return offset
    },
  }
}
