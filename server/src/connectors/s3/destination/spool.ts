/**
 * Lines that wait on the disk to become objects, a file for each partition. Lines are collected a little before they are
 * written, so that many partitions do not mean many small writes.
 */
import { appendFile, rm } from 'node:fs/promises'
import { join } from 'node:path'

const WRITE_BYTES = 64 * 1024

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
    const block = this.#gathered.length === 1 ? this.#gathered[0]! : Buffer.concat(this.#gathered, this.#gatheredBytes)
    this.#gathered = []
    this.#gatheredBytes = 0
    await appendFile(this.path, block, { mode: 0o600 })
  }

  async remove(): Promise<void> {
    await rm(this.path, { force: true })
  }
}
