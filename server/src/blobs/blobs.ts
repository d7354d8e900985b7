/**
 * Blobs: outputs, stage parts and finished logs. Keys are relative paths that begin with the organization's id.
 * A blob is there whole or not at all, and once `finish` or `put` returned it survives a crash of the machine.
 */
import type { Readable } from 'node:stream'

export interface BlobWriter {
  /** Resolves when more may be written. */
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
  /** Fails where the store cannot be used, with an OperatorError where somebody has to act. */
  check(): Promise<void>
  /** Removes what writers that died left behind and is older than `olderThanMs`. */
  sweep(olderThanMs: number): Promise<void>
}

export class BlobNotFound extends Error {}

/** The store could not be reached, or answered with errors of its own, for as long as it was tried. */
export class BlobStoreUnavailable extends Error {}
