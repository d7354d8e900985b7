/**
 * The stage of a run: what was read, as numbered part objects `<organization>/runs/<run>/<attempt>-<n>.part`. A part is
 * durable before the checkpoint that lists it, and the list is saved conditionally on the attempt, so the parts of an
 * attempt that lost its run never count. At the end the list is the output; the parts are not concatenated.
 *
 * `seal` hands the current part over to be made durable and returns at once with a promise, so that reading and the
 * disk sync run in parallel.
 */
import type { BlobStore } from '../blobs/blobs.ts'
import { openPartWriter, type Packing, type PartWriter } from '../blobs/part-writer.ts'
import { isPartKey } from '../blobs/run-keys.ts'
import type { Part } from './job.ts'

export interface StageOptions {
  blobs: BlobStore
  /** `<organization>/runs/<run>/` */
  prefix: string
  attempt: number
  packing: Packing
}

export interface Stage {
  /** Resolves when more may be appended. The bytes have been copied by then. */
  append(bytes: Buffer, records: number): Promise<void>
  /** Ends the current part. Null if nothing was appended since the last one. */
  seal(checkpoint: number): Promise<Part | null>
  /** Drops the unsealed part. */
  abort(): Promise<void>
}

export function openStage({ blobs, prefix, attempt, packing }: StageOptions): Stage {
  let current: { writer: PartWriter; records: number } | null = null
  let number = 0
  return {
    append(bytes, records) {
      current ??= { writer: openPartWriter(blobs, `${prefix}${attempt}-${++number}.part`, packing), records: 0 }
      current.records += records
      return current.writer.write(bytes)
    },
    async seal(checkpoint) {
      const part = current
      current = null
      return part && { checkpoint, ...(await part.writer.finish()), records: part.records }
    },
    async abort() {
      const part = current
      current = null
      await part?.writer.abort()
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

/**
 * Removes the objects of a run that its output does not list: parts of lost attempts, and what a conversion replaced.
 */
export async function removeStrayParts(
  blobs: BlobStore,
  prefix: string,
  keep: readonly { key: string }[],
): Promise<number> {
  const kept = new Set(keep.map((part) => part.key))
  const stray: string[] = []
  for await (const blob of blobs.list(prefix)) {
    if (isPartKey(blob.key) && !kept.has(blob.key)) stray.push(blob.key)
  }
  if (stray.length > 0) await blobs.delete(stray)
  return stray.length
}
