import { MalformedJson } from '../../json/malformed.ts'
import { freeBytes } from '../free-bytes.ts'

const PAGE_BYTES = 1024 * 1024
const LONGEST_LINE = 64 * 1024 * 1024

interface GatherOptions {
  pageBytes?: number
  /** Where a page with these bytes ends; 0 if it has to become larger. */
  endOf?(bytes: Buffer): number
}

const endOfLines = (bytes: Buffer): number => bytes.lastIndexOf(10) + 1

/**
 * As `cutLines`, but all pages share one buffer: a page is gone when the next one is asked for. For whoever is done with a
 * page by then, that leaves the garbage collector nothing to do. The chunks are gone too.
 */
export async function* gatherLines(
  chunks: AsyncIterable<Buffer>,
  { pageBytes = PAGE_BYTES, endOf = endOfLines }: GatherOptions = {},
): AsyncGenerator<Buffer> {
  let gathered = Buffer.allocUnsafeSlow(pageBytes)
  let used = 0
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      const count = chunk.copy(gathered, used, at)
      at += count
      used += count
      if (used < gathered.length) break
      const end = endOf(gathered)
      if (end === 0) {
        gathered = enlarge(gathered)
        continue
      }
      yield gathered.subarray(0, end)
      used = gathered.copy(gathered, 0, end)
    }
    freeBytes(chunk)
  }
  if (used === 0) return
  const last = gathered.subarray(0, used)
  yield last.at(-1) === 10 ? last : Buffer.concat([last, Buffer.from('\n')])
}

function enlarge(full: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
  if (full.length >= LONGEST_LINE) throw new MalformedJson('A line of the file is longer than 64 MB.')
  const larger = Buffer.allocUnsafeSlow(2 * full.length)
  full.copy(larger)
  return larger
}
