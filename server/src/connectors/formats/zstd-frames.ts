/**
 * Cuts a zstd file at the ends of its frames. Node's decompressor drops what follows a frame in the same chunk, and does not
 * notice when the last frame is cut off; both would lose records without a word. So no chunk crosses the end of a frame,
 * frames without content are left out, and a file that ends within a frame is an error. Format: RFC 8878, section 3.
 */
import { ConnectorError } from '../contract.ts'

const MAGIC = 0xfd2fb528
const SKIPPABLE = 0x184d2a50
const DICTIONARY_BYTES = [0, 1, 2, 4]
const SIZE_BYTES = [0, 2, 4, 8]
const RUN_LENGTH = 1
const RESERVED = 3

export async function* cutFrames(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const input = new Input(chunks)
  while (await input.more()) {
    const magic = (await input.take(4)).readUInt32LE()
    if (magic >>> 4 === SKIPPABLE >>> 4) {
      for await (const _ of input.pass((await input.take(4)).readUInt32LE()));
    } else if (magic === MAGIC) {
      yield* passFrame(input)
    } else throw damaged('something follows its last frame')
  }
}

async function* passFrame(input: Input): AsyncGenerator<Buffer> {
  const descriptor = (await input.take(1))[0]!
  const single = (descriptor & 0x20) !== 0
  const sizeFlag = descriptor >>> 6
  const sizeBytes = sizeFlag === 0 && single ? 1 : SIZE_BYTES[sizeFlag]!
  const rest = await input.take((single ? 0 : 1) + DICTIONARY_BYTES[descriptor & 3]! + sizeBytes)
  const magic = Buffer.alloc(4)
  magic.writeUInt32LE(MAGIC)
  yield Buffer.concat([magic, Buffer.from([descriptor]), rest])
  for (let last = false; !last; ) {
    const header = await input.take(3)
    const value = header.readUIntLE(0, 3)
    const type = (value >>> 1) & 3
    if (type === RESERVED) throw damaged('it has a block of an unknown type')
    last = (value & 1) === 1
    yield header
    yield* input.pass(type === RUN_LENGTH ? 1 : value >>> 3)
  }
  if (descriptor & 4) yield await input.take(4)
}

/** The bytes of a stream, by count. */
class Input {
  readonly #chunks: AsyncIterator<Buffer>
  #held: Buffer = Buffer.alloc(0)

  constructor(chunks: AsyncIterable<Buffer>) {
    this.#chunks = chunks[Symbol.asyncIterator]()
  }

  async more(): Promise<boolean> {
    while (this.#held.length === 0) {
      const { done, value } = await this.#chunks.next()
      if (done) return false
      this.#held = value
    }
    return true
  }

  async take(bytes: number): Promise<Buffer> {
    const pieces: Buffer[] = []
    for await (const piece of this.pass(bytes)) pieces.push(piece)
    return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
  }

  async *pass(bytes: number): AsyncGenerator<Buffer> {
    for (let left = bytes; left > 0; ) {
      if (!(await this.more())) throw damaged('it ends in the middle')
      const piece = this.#held.subarray(0, left)
      this.#held = this.#held.subarray(piece.length)
      left -= piece.length
      yield piece
    }
  }
}

function damaged(reason: string): ConnectorError {
  return new ConnectorError(
    'source',
    `The file starts like a zstd file but cannot be decompressed: ${reason}. It is damaged or truncated.`,
  )
}
