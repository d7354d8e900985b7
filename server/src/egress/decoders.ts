/**
 * The content encodings that are supported, each decoded in two ways: as a stage of a stream and in one piece. Both
 * have the same limits, so that it makes no difference which of them reads an answer.
 */
import { type Duplex, pipeline, Readable } from 'node:stream'
import { promisify } from 'node:util'
import * as zlib from 'node:zlib'
import { EgressFailed } from './refusal.ts'

export interface Decoder {
  /** `first` are the first bytes that will be written to it. */
  open(first: Buffer): Duplex
  /** Throws ERR_BUFFER_TOO_LARGE past `maxOutputLength`. */
  decode(bytes: Buffer, maxOutputLength: number): Promise<Buffer>
}

/** No honest server chains more; a longer chain only multiplies work. */
const MAX_ENCODINGS = 3

// 8 MiB is the largest window that RFC 9659 allows a server to use; without a limit it could demand 128 MiB.
const zstdOptions = { params: { [zlib.constants.ZSTD_d_windowLogMax]: 23 } }
const gunzip = promisify(zlib.gunzip)
const inflate = promisify(zlib.inflate)
const inflateRaw = promisify(zlib.inflateRaw)
const brotliDecompress = promisify(zlib.brotliDecompress)
const zstdDecompress = promisify(zlib.zstdDecompress)

const gzip: Decoder = {
  open: () => zlib.createGunzip(),
  decode: (bytes, maxOutputLength) => gunzip(bytes, { maxOutputLength }),
}

const decoders: ReadonlyMap<string, Decoder> = new Map([
  ['gzip', gzip],
  ['x-gzip', gzip],
  [
    'deflate',
    {
      open: (first) => (hasZlibHeader(first) ? zlib.createInflate() : zlib.createInflateRaw()),
      decode: (bytes, maxOutputLength) => (hasZlibHeader(bytes) ? inflate : inflateRaw)(bytes, { maxOutputLength }),
    },
  ],
  [
    'br',
    {
      open: () => zlib.createBrotliDecompress(),
      decode: (bytes, maxOutputLength) => brotliDecompress(bytes, { maxOutputLength }),
    },
  ],
  [
    'zstd',
    {
      open: () => zlib.createZstdDecompress(zstdOptions),
      decode: (bytes, maxOutputLength) => zstdDecompress(bytes, { ...zstdOptions, maxOutputLength }),
    },
  ],
])

export const acceptedEncodings = 'gzip, deflate, br, zstd'

/** The decoders for a Content-Encoding, in the order they are applied. */
export function decodersFor(encoding: string, host: string): Decoder[] {
  const names = encoding
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity')
  if (names.length > MAX_ENCODINGS)
    throw new EgressFailed('encoding', `${host} sent an answer compressed ${names.length} times`)
  return names.reverse().map((name) => {
    const decoder = decoders.get(name)
    if (decoder) return decoder
    throw new EgressFailed('encoding', `${host} sent an answer in the unknown encoding "${name.slice(0, 40)}"`)
  })
}

/** `deflate` means zlib's format, but some servers send it without its header. */
function hasZlibHeader(bytes: Buffer): boolean {
  return (bytes[0]! & 0x0f) === 8
}

/** A decoder as a stage of a pipeline. It starts with the first bytes: an empty body has no encoding. */
export async function* decodeStream(decoder: Decoder, source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const chunks = source[Symbol.asyncIterator]()
  const first = await chunks.next()
  if (first.done) return
  const whole = async function* () {
    yield first.value
    yield* { [Symbol.asyncIterator]: () => chunks }
  }
  yield* pipeline(Readable.from(whole(), { objectMode: false }), decoder.open(first.value), () => {})
}
