import { MalformedJson } from './malformed.ts'

const PAGE_BYTES = 256 * 1024
/** Below this, one page of several chunks is worth copying them. */
const LARGE_CHUNK = 64 * 1024
const LONGEST_LINE = 64 * 1024 * 1024

/**
 * Splits a byte stream into pieces that hold whole lines and end with a newline. If a chunk is large enough, a piece is
 * a slice of it; only an incomplete line is carried over and copied.
 */
export async function* cutLines(chunks: AsyncIterable<Buffer>, pageBytes = PAGE_BYTES): AsyncGenerator<Buffer> {
  let carried: Buffer[] = []
  let carriedBytes = 0
  for await (const given of chunks) {
    let chunk = given
    const firstEnd = carriedBytes > 0 && chunk.length >= LARGE_CHUNK ? chunk.indexOf(10) + 1 : 0
    if (firstEnd > 0) {
      yield Buffer.concat([...carried, chunk.subarray(0, firstEnd)])
      chunk = chunk.subarray(firstEnd)
      carried = []
      carriedBytes = 0
    }
    carried.push(chunk)
    carriedBytes += chunk.length
    if (carriedBytes < pageBytes && carriedBytes > chunk.length) continue
    const newline = chunk.lastIndexOf(10)
    if (newline === -1) {
      if (carriedBytes > LONGEST_LINE) throw new MalformedJson('A line of the file is longer than 64 MB.')
      continue
    }
    const rest = chunk.subarray(newline + 1)
    carried[carried.length - 1] = chunk.subarray(0, newline + 1)
    yield carried.length === 1 ? carried[0]! : Buffer.concat(carried)
    carried = rest.length > 0 ? [rest] : []
    carriedBytes = rest.length
  }
  if (carriedBytes > 0) {
    const last = Buffer.concat(carried)
    yield last.at(-1) === 10 ? last : Buffer.concat([last, Buffer.from('\n')])
  }
}
