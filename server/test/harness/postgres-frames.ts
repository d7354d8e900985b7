/** Messages of a PostgreSQL server, built by hand. */

export function frame(kind: string, ...parts: (Buffer | string)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)))
  return Buffer.concat([head(kind, body.length + 4), body])
}

/** Only the first five bytes, with any length. */
export function head(kind: string, length: number): Buffer {
  const bytes = Buffer.alloc(5)
  bytes.write(kind, 0, 'latin1')
  bytes.writeUInt32BE(length >>> 0, 1)
  return bytes
}

export function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16BE(value & 0xffff)
  return bytes
}

export function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value >>> 0)
  return bytes
}

export const authentication = (type: number, ...rest: (Buffer | string)[]) => frame('R', int32(type), ...rest)
export const parameter = (name: string, value: string) => frame('S', `${name}\0${value}\0`)
export const notice = frame('N', 'SNOTICE\0C00000\0Mhello\0\0')
export const notification = frame('A', int32(1), 'channel\0payload\0')
export const serverError = (message: string) => frame('E', `SERROR\0CXX000\0M${message}\0\0`)
export const keyData = frame('K', int32(1), int32(2))
export const ready = frame('Z', 'I')
export const complete = (tag = 'SELECT 1') => frame('C', `${tag}\0`)
export const parsed = frame('1')
export const bound = frame('2')

/** A result with columns of these names and type OIDs. */
export function rowDescription(columns: [name: string, type: number][]): Buffer {
  const fields = columns.map(([name, type]) =>
    Buffer.concat([Buffer.from(`${name}\0`), int32(0), int16(0), int32(type), int16(-1), int32(-1), int16(0)]),
  )
  return frame('T', int16(columns.length), ...fields)
}

export function dataRow(values: (string | null)[]): Buffer {
  const parts = values.flatMap((value) =>
    value === null ? [int32(-1)] : [int32(Buffer.byteLength(value)), Buffer.from(value)],
  )
  return frame('D', int16(values.length), ...parts)
}

/** What a server sends to a client that needs no password. */
export const welcome = Buffer.concat([authentication(0), parameter('server_version', '18.4'), keyData, ready])
