/** The first file of a ZIP archive, found by its central directory: local headers may not know the sizes. */
import { inflateRawSync } from 'node:zlib'
import { ConnectorError } from '../../contract.ts'

const END = 0x06054b50
const ENTRY = 0x02014b50
const LOCAL = 0x04034b50
const LONGEST_COMMENT = 65_535
const END_BYTES = 22
const CHUNK_BYTES = 1024 * 1024

export function unzipFirst(bytes: Buffer, maxBytes: number): Buffer {
  try {
    return readFirst(bytes, maxBytes)
  } catch (error) {
    if (error instanceof ConnectorError) throw error
    const large = (error as { code?: string }).code === 'ERR_BUFFER_TOO_LARGE'
    const why = large ? `is larger than ${maxBytes / 1024 / 1024} MiB after unpacking` : 'is not a valid ZIP archive'
    throw new ConnectorError('source', `An answer ${why}.`, { cause: error })
  }
}

function readFirst(bytes: Buffer, maxBytes: number): Buffer {
  let at = bytes.readUInt32LE(findEnd(bytes) + 16)
  for (;;) {
    if (bytes.readUInt32LE(at) !== ENTRY) throw new ConnectorError('source', 'A ZIP archive of the answer has no file.')
    const nameLength = bytes.readUInt16LE(at + 28)
    const isFolder = bytes[at + 46 + nameLength - 1] === 0x2f
    if (!isFolder) break
    at += 46 + nameLength + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32)
  }
  const method = bytes.readUInt16LE(at + 10)
  const size = bytes.readUInt32LE(at + 20)
  const local = bytes.readUInt32LE(at + 42)
  if (bytes.readUInt32LE(local) !== LOCAL) throw new Error('no local header')
  const start = local + 30 + bytes.readUInt16LE(local + 26) + bytes.readUInt16LE(local + 28)
  const packed = bytes.subarray(start, start + size)
  if (method === 0) return packed
  if (method !== 8) throw new ConnectorError('source', 'A ZIP archive uses a compression other than deflate.')
  return inflateRawSync(packed, { maxOutputLength: maxBytes, chunkSize: CHUNK_BYTES })
}

function findEnd(bytes: Buffer): number {
  const lowest = Math.max(0, bytes.length - END_BYTES - LONGEST_COMMENT)
  for (let at = bytes.length - END_BYTES; at >= lowest; at--) if (bytes.readUInt32LE(at) === END) return at
  throw new Error('no end of the central directory')
}
