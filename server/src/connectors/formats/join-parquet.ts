/**
 * Joins Parquet files of the same columns into one: their row groups one after the other as they are, then one footer that
 * lists them all at their new places. Nothing is decoded.
 */
import { createReadStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { type ThriftList, ThriftReader, type ThriftStruct, writeThrift } from './thrift.ts'

const MAGIC = Buffer.from('PAR1')
const READ_BYTES = 1024 * 1024

/** The fields of parquet.thrift that are used here. */
const FILE = { schema: 2, rows: 3, rowGroups: 4 }
const ROW_GROUP = { columns: 1, fileOffset: 5, ordinal: 7 }
const COLUMN = { fileOffset: 2, metadata: 3, offsetIndex: 4, columnIndex: 6 }
const METADATA = { dataPage: 9, indexPage: 10, dictionaryPage: 11, bloomFilter: 14 }

interface ParquetFile {
  footer: ThriftStruct
  /** Where the footer begins, and the row groups end. */
  end: number
}

export class ParquetJoin {
  #footer: ThriftStruct | null = null
  #schema: Buffer = Buffer.alloc(0)
  /** Written out: as maps they would take many times the memory, and a wide table has thousands of columns in each. */
  readonly #groups: Buffer[] = []
  #rows = 0n
  /** Where the next file goes. */
  #end = 0

  get rows(): number {
    return Number(this.#rows)
  }

  /** The bytes of the next file, without its footer. */
  async *append(path: string): AsyncGenerator<Buffer> {
    const { footer, end } = await readFooter(path)
    const schema = bytesOf(footer, FILE.schema)
    if (this.#footer === null) {
      this.#footer = withGroups(footer, [])
      this.#schema = schema
      this.#end = MAGIC.length
      yield MAGIC
    }
    if (!schema.equals(this.#schema)) throw new Error('Parquet files with different columns cannot be joined')
    this.#rows += intOf(footer, FILE.rows)
    for (const group of structsOf(footer, FILE.rowGroups)) {
      moveGroup(group, BigInt(this.#end - MAGIC.length), BigInt(this.#groups.length))
      this.#groups.push(writeThrift(group))
    }
    this.#end += end - MAGIC.length
    if (end > MAGIC.length)
      yield* createReadStream(path, { start: MAGIC.length, end: end - 1, highWaterMark: READ_BYTES })
  }

  /** The footer of all files; there is at least one. */
  finish(): Buffer {
    const joined = withGroups(this.#footer!, this.#groups)
    setInt(joined, FILE.rows, this.#rows)
    const footer = writeThrift(joined)
    const length = Buffer.alloc(4)
    length.writeUInt32LE(footer.length)
    return Buffer.concat([footer, length, MAGIC])
  }
}

/** A copy; a struct that is written out already is written as it is. */
function withGroups(footer: ThriftStruct, items: Buffer[]): ThriftStruct {
  const list = footer.get(FILE.rowGroups)!
  return new Map(footer).set(FILE.rowGroups, { ...list, value: { type: (list.value as ThriftList).type, items } })
}

async function readFooter(path: string): Promise<ParquetFile> {
  const file = await open(path)
  try {
    const { size } = await file.stat()
    const tail = await readAt(file, size - 8, 8)
    if (!tail.subarray(4).equals(MAGIC)) throw new Error('a Parquet file has no footer')
    const length = tail.readUInt32LE(0)
    const end = size - 8 - length
    return { footer: new ThriftReader(await readAt(file, end, length)).readStruct(), end }
  } finally {
    await file.close()
  }
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position)
  if (bytesRead < length) throw new Error('a Parquet file is cut off')
  return buffer
}

function moveGroup(group: ThriftStruct, by: bigint, ordinal: bigint): void {
  move(group, ROW_GROUP.fileOffset, by)
  // 16 bits; it is optional.
  if (ordinal < 32768n) setInt(group, ROW_GROUP.ordinal, ordinal)
  else group.delete(ROW_GROUP.ordinal)
  for (const column of structsOf(group, ROW_GROUP.columns)) {
    for (const offset of [COLUMN.fileOffset, COLUMN.offsetIndex, COLUMN.columnIndex]) move(column, offset, by)
    const metadata = column.get(COLUMN.metadata)?.value
    if (metadata instanceof Map) for (const offset of Object.values(METADATA)) move(metadata, offset, by)
  }
}

/** An offset of 0 means that there is nothing. */
function move(struct: ThriftStruct, field: number, by: bigint): void {
  const found = struct.get(field)
  if (found && (found.value as bigint) > 0n) setInt(struct, field, (found.value as bigint) + by)
}

function setInt(struct: ThriftStruct, field: number, value: bigint): void {
  const found = struct.get(field)
  if (found) struct.set(field, { type: found.type, value })
}

function intOf(struct: ThriftStruct, field: number): bigint {
  const value = struct.get(field)?.value
  if (typeof value !== 'bigint') throw new Error(`a Parquet footer has no field ${field}`)
  return value
}

function structsOf(struct: ThriftStruct, field: number): ThriftStruct[] {
  return ((struct.get(field)?.value as ThriftList | undefined)?.items ?? []) as ThriftStruct[]
}

/** For comparisons. */
function bytesOf(footer: ThriftStruct, field: number): Buffer {
  const found = footer.get(field)
  return found ? writeThrift(new Map([[field, found]])) : Buffer.alloc(0)
}
