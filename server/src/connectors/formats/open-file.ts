/** Opens a stream of bytes as a file: decompresses it and detects its format. */
import { pipeline, Readable } from 'node:stream'
import { constants, createGunzip, createZstdDecompress } from 'node:zlib'
import { ConnectorError } from '../contract.ts'
import { cutFrames } from './zstd-frames.ts'

/** `json` is one array of objects. */
export type FileFormat = 'jsonl' | 'json' | 'csv' | 'parquet'

export interface OpenFile {
  format: FileFormat
  /** It was compressed. */
  packed: boolean
  /** A byte order mark, which is no part of its text. */
  startsWithMark: boolean
  /** Its bytes, decompressed. */
  chunks: AsyncIterable<Buffer>
  close(): Promise<void>
}

interface FileOptions {
  /** For the format, where none is given. */
  name: string
  format?: FileFormat | undefined
  /** Errors of the stream itself, for people. */
  explain(error: unknown): unknown
  /** Throws if a file that begins like this, decompressed, cannot be read. */
  check?(head: Buffer): void
}

/** What the zstd command accepts unless it is told otherwise; a file could demand 2 GB. */
const zstdOptions = { params: { [constants.ZSTD_d_windowLogMax]: 27 } }

const MARK = Buffer.from([0xef, 0xbb, 0xbf])

interface Unpacker {
  name: string
  magic: Buffer
  open(packed: Readable): Readable
}

const unpackers: Unpacker[] = [
  {
    name: 'gzip',
    magic: Buffer.from([0x1f, 0x8b]),
    open: (packed) => pipeline(packed, createGunzip(), () => undefined),
  },
  {
    name: 'zstd',
    magic: Buffer.from([0x28, 0xb5, 0x2f, 0xfd]),
    open: (packed) =>
      // In object mode, which never joins two chunks.
      pipeline(Readable.from(cutFrames(packed)), createZstdDecompress(zstdOptions), () => undefined),
  },
]

export async function openStream(body: Readable, { name, format, explain, check }: FileOptions): Promise<OpenFile> {
  const raw = await peek(body, explain)
  const unpacker = unpackers.find(({ magic }) => raw.first.subarray(0, magic.length).equals(magic))
  const unpacked = unpacker?.open(raw.stream)
  const { first, stream } = unpacked ? await peek(unpacked, explain, unpacker!.name) : raw
  const close = async (): Promise<void> => {
    stream.destroy()
    body.destroy()
  }
  try {
    check?.(first)
  } catch (error) {
    await close()
    throw error
  }
  return {
    format: format ?? formatByName(name) ?? formatByContent(first, name),
    packed: unpacker !== undefined,
    startsWithMark: first.subarray(0, 3).equals(MARK),
    chunks: translate(stream, explain, unpacker?.name),
    close,
  }
}

/** The first bytes of a stream, and the stream with those bytes still in it. */
async function peek(
  stream: Readable,
  explain: FileOptions['explain'],
  packed?: string,
): Promise<{ first: Buffer; stream: Readable }> {
  const iterator = translate(stream, explain, packed)[Symbol.asyncIterator]()
  const held: Buffer[] = []
  let bytes = 0
  while (bytes < 4096) {
    const { done, value } = await iterator.next()
    if (done) break
    held.push(value)
    bytes += value.length
  }
  async function* again(): AsyncGenerator<Buffer> {
    yield* held
    yield* { [Symbol.asyncIterator]: () => iterator }
  }
  return {
    first: Buffer.concat(held),
    stream: Readable.from(again(), { objectMode: false, highWaterMark: 256 * 1024 }),
  }
}

const UNPACK_CODES = /^(Z_|ZSTD|ERR_ZSTD|ERR__ERROR)/

/** The chunks of a stream; errors are translated to ConnectorErrors. */
async function* translate(stream: Readable, explain: FileOptions['explain'], packed?: string): AsyncGenerator<Buffer> {
  try {
    yield* stream
  } catch (error) {
    if (packed !== undefined && UNPACK_CODES.test((error as NodeJS.ErrnoException).code ?? ''))
      throw new ConnectorError(
        'source',
        `The file starts like a ${packed} file but cannot be decompressed; it is damaged or truncated.`,
        { cause: error },
      )
    throw explain(error)
  }
}

export function formatByName(name: string): FileFormat | null {
  const ending = /\.([a-z]+)(?:\.(?:gz|gzip|zst|zstd))?$/.exec(name.toLowerCase())?.[1]
  if (ending === 'csv' || ending === 'tsv' || ending === 'txt') return 'csv'
  if (ending === 'jsonl' || ending === 'ndjson') return 'jsonl'
  return ending === 'parquet' ? 'parquet' : null
}

/** A file whose name ends in .json holds an array or JSON lines, as its first character says. */
function formatByContent(first: Buffer, name: string): FileFormat {
  if (first.subarray(0, 4).toString('latin1') === 'PAR1') return 'parquet'
  const text = first
    .toString('utf8')
    .replace(/^\ufeff/, '')
    .trimStart()
  if (/^\[\s*[{\]]/.test(text)) return 'json'
  const named = /\.json(?:\.(?:gz|gzip|zst|zstd))?$/i.test(name)
  if (named) return text.startsWith('[') ? 'json' : 'jsonl'
  return text === '' || text.startsWith('{') ? 'jsonl' : 'csv'
}
