/** Thrift's compact protocol, which the footer of a Parquet file is written in. Fields keep their types, known or not. */

const TRUE = 1
const FALSE = 2
const BYTE = 3
const I16 = 4
const I32 = 5
const I64 = 6
const DOUBLE = 7
const BINARY = 8
const LIST = 9
const STRUCT = 12

export type ThriftValue = boolean | bigint | Buffer | ThriftList | ThriftStruct

export interface ThriftList {
  type: number
  items: ThriftValue[]
}

/** By the number of the field. */
export type ThriftStruct = Map<number, { type: number; value: ThriftValue }>

export class ThriftReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  readStruct(): ThriftStruct {
    const fields: ThriftStruct = new Map()
    let last = 0
    for (let head = this.#byte(); head !== 0; head = this.#byte()) {
      const type = head & 15
      last = head >> 4 === 0 ? Number(this.#signed()) : last + (head >> 4)
      const value = type === TRUE || type === FALSE ? type === TRUE : this.#value(type)
      fields.set(last, { type, value })
    }
    return fields
  }

  #value(type: number): ThriftValue {
    if (type === TRUE || type === FALSE) return this.#byte() === TRUE
    if (type === BYTE) return BigInt(this.#byte())
    if (type === I16 || type === I32 || type === I64) return this.#signed()
    if (type === DOUBLE) return this.#take(8)
    if (type === BINARY) return this.#take(Number(this.#unsigned()))
    if (type === STRUCT) return this.readStruct()
    if (type !== LIST) throw new Error(`no such type in a Parquet footer: ${type}`)
    const head = this.#byte()
    const length = head >> 4 === 15 ? Number(this.#unsigned()) : head >> 4
    const list: ThriftList = { type: head & 15, items: [] }
    for (let count = 0; count < length; count += 1) list.items.push(this.#value(list.type))
    return list
  }

  #byte(): number {
    const byte = this.#bytes[this.#at++]
    if (byte === undefined) throw new Error('a Parquet footer ends early')
    return byte
  }

  #take(length: number): Buffer {
    this.#at += length
    if (this.#at > this.#bytes.length) throw new Error('a Parquet footer ends early')
    return this.#bytes.subarray(this.#at - length, this.#at)
  }

  #unsigned(): bigint {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.#byte()
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return value
    }
  }

  #signed(): bigint {
    const value = this.#unsigned()
    return (value >> 1n) ^ -(value & 1n)
  }
}

export function writeThrift(struct: ThriftStruct): Buffer {
  const pieces: (number | Buffer)[] = []
  writeStruct(pieces, struct)
  const bytes: Buffer[] = []
  for (let at = 0; at < pieces.length; at += 1) {
    const piece = pieces[at]!
    if (typeof piece !== 'number') {
      bytes.push(piece)
      continue
    }
    const start = at
    while (typeof pieces[at + 1] === 'number') at += 1
    bytes.push(Buffer.from(pieces.slice(start, at + 1) as number[]))
  }
  return Buffer.concat(bytes)
}

function writeStruct(out: (number | Buffer)[], struct: ThriftStruct): void {
  let last = 0
  for (const [number, { type, value }] of [...struct].toSorted(([one], [other]) => one - other)) {
    const kind = typeof value === 'boolean' ? (value ? TRUE : FALSE) : type
    const delta = number - last
    last = number
    if (delta > 0 && delta < 16) out.push((delta << 4) | kind)
    else {
      out.push(kind)
      writeSigned(out, BigInt(number))
    }
    if (typeof value !== 'boolean') writeValue(out, type, value)
  }
  out.push(0)
}

function writeValue(out: (number | Buffer)[], type: number, value: ThriftValue): void {
  if (typeof value === 'boolean') out.push(value ? TRUE : FALSE)
  else if (typeof value === 'bigint') {
    if (type === BYTE) out.push(Number(value))
    else writeSigned(out, value)
  } else if (Buffer.isBuffer(value)) {
    if (type === BINARY) writeUnsigned(out, BigInt(value.length))
    out.push(value)
  } else if (value instanceof Map) writeStruct(out, value)
  else {
    const { length } = value.items
    out.push((Math.min(length, 15) << 4) | value.type)
    if (length >= 15) writeUnsigned(out, BigInt(length))
    for (const item of value.items) writeValue(out, value.type, item)
  }
}

const writeSigned = (out: (number | Buffer)[], value: bigint): void =>
  writeUnsigned(out, value < 0n ? -2n * value - 1n : 2n * value)

function writeUnsigned(out: (number | Buffer)[], value: bigint): void {
  let rest = value
  for (; rest > 127n; rest >>= 7n) out.push(Number(rest & 127n) | 128)
  out.push(Number(rest))
}
