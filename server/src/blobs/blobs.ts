/**
 * Blobs: outputs, stage parts and packed logs. Keys are relative paths that start with the organization's id. A blob
 * exists completely or not at all, and once `finish` or `put` has returned it survives a machine crash.
 */
import type { Readable } from 'node:stream'

export interface BlobWriter {
  /** Resolves when more may be written. The chunk may be used again when the next call has resolved. */
  write(chunk: Uint8Array): Promise<void>
  finish(): Promise<{ size: number }>
  abort(): Promise<void>
}

export interface BlobInfo {
  key: string
  size: number
  modified: Date
}

export interface BlobStore {
  put(key: string, bytes: Uint8Array): Promise<void>
  writer(key: string): Promise<BlobWriter>
  /** `end` is inclusive, as in HTTP. Throws BlobNotFound. */
  read(key: string, range?: { start: number; end: number }): Promise<Readable>
  stat(key: string): Promise<BlobInfo | null>
  delete(keys: readonly string[]): Promise<void>
  list(prefix: string): AsyncIterable<BlobInfo>
  /** Fails if the store cannot be used, with an OperatorError if an operator has to act. */
  check(): Promise<void>
  /** Removes leftovers of dead writers that are older than `olderThanMs`. */
  sweep(olderThanMs: number): Promise<void>
}

export class BlobNotFound extends Error {}

/** The store could not be reached, or kept answering with server errors, for as long as it was tried. */
export class BlobStoreUnavailable extends Error {}
