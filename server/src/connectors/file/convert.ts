import type { BlobStore } from '../../storage/blobs.ts'
import { ConnectorError, type OutputShape } from '../contract.ts'

export interface Conversion {
  blobs: BlobStore
  /** Blobs with JSON lines, in order. */
  parts: readonly { key: string; size: number }[]
  /** Where the result goes. */
  key: string
  shape: OutputShape
  signal: AbortSignal
}

export async function convertParts(conversion: Conversion): Promise<{ size: number }> {
  throw new ConnectorError('config', `The format ${conversion.shape.format} is not offered; use jsonl.`)
}
