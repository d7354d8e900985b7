/**
 * Lines that wait on the disk to become objects, a file for each partition. Lines are collected a little before they are
 * written, so that many partitions do not mean many small writes.
 */
import { type FileHandle, open, rm } from 'node:fs/promises'
import { join } from 'node:path'

const WRITE_BYTES = 64 * 1024
/** The kernel takes at most this many buffers. */
const MOST_AT_ONCE = 1024

export class Spool {
  readonly path: string
  /** Of the object, below the target; '' or ending with a slash. */
  readonly folder: string
  records = 0
  bytes = 0
  #gathered: Buffer[] = []
  #gatheredBytes = 0

  constructor(directory: string, name: string, folder: string) {
    this.path = join(directory, name)
    this.folder = folder
  }

  async add(lines: readonly Buffer[], records: number): Promise<void> {
    this.records += records
    for (const each of lines) {
      this.#gathered.push(each)
      this.#gatheredBytes += each.length
      this.bytes += each.length
    }
    if (this.#gatheredBytes >= WRITE_BYTES) await this.flush()
  }

  async flush(): Promise<void> {
    if (this.#gatheredBytes === 0) return
    const gathered = this.#gathered
    this.#gathered = []
    this.#gatheredBytes = 0
    // Opened every time, because a checkpoint may have hundreds of these.
    const file = await open(this.path, 'a', 0o600)
    try {
      await writeAll(file, gathered)
    } finally {
      await file.close()
    }
  }

  async remove(): Promise<void> {
    await rm(this.path, { force: true })
  }
}

/** Without joining them in memory. A write may end early, for example when the disk is full, and then the next one says why. */
async function writeAll(file: FileHandle, blocks: readonly Buffer[]): Promise<void> {
  for (let left = blocks; left.length > 0; ) {
    const { bytesWritten } = await file.writev(left.slice(0, MOST_AT_ONCE))
    left = withoutFirst(left, bytesWritten)
  }
}

function withoutFirst(blocks: readonly Buffer[], bytes: number): readonly Buffer[] {
  let rest = bytes
  let first = 0
  while (first < blocks.length && rest >= blocks[first]!.length) rest -= blocks[first++]!.length
  return rest === 0 ? blocks.slice(first) : [blocks[first]!.subarray(rest), ...blocks.slice(first + 1)]
}
