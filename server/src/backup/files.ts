/** Compressed files of a backup, with size and checksum of what is stored. */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { createZstdCompress, createZstdDecompress } from 'node:zlib'
import type { BlobStore, BlobWriter } from '../blobs/blobs.ts'
import { OperatorError } from '../errors.ts'
import type { StoredFile } from './manifest.ts'

/** Compresses the chunks into a file, which exists only when all of them are there. */
export async function writeCompressed(
  store: BlobStore,
  key: string,
  chunks: AsyncIterable<Uint8Array>,
  onBytes: (bytes: number) => void = () => {},
): Promise<StoredFile> {
  const writer = await store.writer(key)
  const hash = createHash('sha256')
  let bytes = 0
  try {
    const source = Readable.from(chunks)
    const compress = createZstdCompress()
    source.on('error', (error) => compress.destroy(error))
    for await (const chunk of source.pipe(compress) as AsyncIterable<Buffer>) {
      hash.update(chunk)
      bytes += chunk.length
      onBytes(chunk.length)
      await writer.write(chunk)
    }
    await writer.finish()
  } catch (error) {
    await writer.abort()
    throw error
  }
  return { bytes, sha256: hash.digest('hex') }
}

/** The content of a file. Throws at its end if it is not the one that was written. */
export async function* readCompressed(store: BlobStore, key: string, expected: StoredFile): AsyncGenerator<Buffer> {
  const hash = createHash('sha256')
  let bytes = 0
  const stored = await store.read(key)
  const decompress = createZstdDecompress()
  stored.on('error', (error) => decompress.destroy(error))
  stored.on('data', (chunk: Buffer) => {
    hash.update(chunk)
    bytes += chunk.length
  })
  try {
    for await (const chunk of stored.pipe(decompress) as AsyncIterable<Buffer>) yield chunk
  } catch (error) {
    throw damaged(key, (error as Error).message)
  } finally {
    stored.destroy()
  }
  if (bytes !== expected.bytes || hash.digest('hex') !== expected.sha256) throw damaged(key, 'its checksum differs')
}

export const damaged = (key: string, why: string): OperatorError =>
  new OperatorError(`The backup is damaged: ${key}: ${why}. Nothing was restored; use another copy of the backup.`)

/** Copies a blob as it is. */
export async function copyBlob(
  from: BlobStore,
  to: BlobStore,
  [source, target]: [string, string],
): Promise<{ size: number }> {
  const content = await from.read(source)
  let writer: BlobWriter | undefined
  try {
    writer = await to.writer(target)
    for await (const chunk of content) await writer.write(chunk as Buffer)
    return await writer.finish()
  } catch (error) {
    await writer?.abort()
    throw error
  } finally {
    content.destroy()
  }
}

/** The lines of a text that comes in chunks. */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest = ''
  const decoder = new TextDecoder()
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop()!
    yield* lines
  }
  if (rest !== '') yield rest
}
