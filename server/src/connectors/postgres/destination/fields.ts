/** Rows of COPY text with only some of their fields: where a raw tab stands a field ends, and nowhere else. */
export function pickFields(bytes: Buffer, kept: readonly boolean[]): Buffer {
  const picked = Buffer.allocUnsafe(bytes.length)
  let to = 0
  let field = 0
  let first = true
  let from = 0
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]!
    if (byte !== 9 && byte !== 10) continue
    if (kept[field]) {
      if (!first) picked[to++] = 9
      to += bytes.copy(picked, to, from, at)
      first = false
    }
    field += 1
    if (byte === 10) {
      picked[to++] = 10
      field = 0
      first = true
    }
    from = at + 1
  }
  return picked.subarray(0, to)
}
