/** Rows in the bytes of an output: the first of them, and how long they are. */

const [QUOTE, NEWLINE] = [34, 10]

export async function* firstLines(chunks: AsyncIterable<Buffer>, lines: number): AsyncGenerator<Buffer> {
  let missing = lines
  for await (const chunk of chunks) {
    let end = 0
    while (missing > 0) {
      const newline = chunk.indexOf(NEWLINE, end)
      if (newline === -1) break
      end = newline + 1
      missing--
    }
    if (missing === 0) return yield chunk.subarray(0, end)
    yield chunk
  }
}

/** Rows of CSV as we write it: a newline within quotes does not end a row. */
export async function* firstRows(chunks: AsyncIterable<Buffer>, rows: number): AsyncGenerator<Buffer> {
  let missing = rows
  let quoted = false
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at++) {
      if (chunk[at] === QUOTE) quoted = !quoted
      if (chunk[at] !== NEWLINE || quoted) continue
      missing--
      if (missing === 0) return yield chunk.subarray(0, at + 1)
    }
    yield chunk
  }
}

/** A large page becomes large strings, which keep the garbage collector of a small heap busy. */
const PAGE_BYTES = 64 * 1024

/** Pieces of whole lines, as small as that allows. */
export async function* cutPages(pages: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const page of pages)
    for (let start = 0; start < page.length; ) {
      const newline = page.indexOf(NEWLINE, start + PAGE_BYTES)
      const end = newline === -1 ? page.length : newline + 1
      yield page.subarray(start, end)
      start = end
    }
}

/** The length of the longest row. */
export function createRowMeasure(csv: boolean): { add(chunk: Buffer): void; longest(): number } {
  let longest = 0
  let length = 0
  let quoted = false
  const endRow = (bytes: number): void => {
    longest = Math.max(longest, length + bytes)
    length = 0
  }
  return {
    add(chunk) {
      let start = 0
      for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, end + 1)) {
        if (csv && countQuotes(chunk, start, end) % 2 === 1) quoted = !quoted
        if (quoted) length += end + 1 - start
        else endRow(end + 1 - start)
        start = end + 1
      }
      if (csv && countQuotes(chunk, start, chunk.length) % 2 === 1) quoted = !quoted
      length += chunk.length - start
    },
    longest: () => Math.max(longest, length),
  }
}

function countQuotes(chunk: Buffer, start: number, end: number): number {
  let count = 0
  for (let at = start; at < end; at++) if (chunk[at] === QUOTE) count++
  return count
}
