/**
 * The pages of a batch, cut into chunks of whole rows: each becomes one INSERT, one block and so one part in every partition,
 * with a token of its own. A batch that is sent again comes in other pages, so where a chunk ends only depends on
 * the rows themselves, as they were read.
 */

const NEWLINE = 10
const CHUNK_BYTES = 8 * 1024 * 1024
export const CHUNK_ROWS = 500_000

export function* cutChunks(
  pages: readonly Buffer[],
  { bytes: maxBytes, rows: maxRows } = { bytes: CHUNK_BYTES, rows: CHUNK_ROWS },
): Generator<Buffer> {
  let parts: Buffer[] = []
  let bytes = 0
  let rows = 0
  for (const page of pages) {
    let from = 0
    let start = 0
    for (let end = page.indexOf(NEWLINE); end >= 0; end = page.indexOf(NEWLINE, start)) {
      bytes += end + 1 - start
      rows += 1
      start = end + 1
      if (bytes < maxBytes && rows < maxRows) continue
      parts.push(page.subarray(from, start))
      yield parts.length === 1 ? parts[0]! : Buffer.concat(parts)
      parts = []
      bytes = 0
      rows = 0
      from = start
    }
    if (from < page.length) parts.push(page.subarray(from))
  }
  if (parts.length > 0) yield parts.length === 1 ? parts[0]! : Buffer.concat(parts)
}
