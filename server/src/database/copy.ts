/** COPY of whole tables, in text form, for backups: out as chunks with backpressure, in from chunks. */
import type pg from 'pg'

interface Wire {
  query(text: string): void
  stream: NodeJS.ReadWriteStream & { pause(): unknown; resume(): unknown }
  sendCopyFromChunk(chunk: Uint8Array): void
  endCopyFrom(): void
}

class Copy implements pg.Submittable {
  readonly #text: string
  wire: Wire | null = null
  error: Error | null = null
  rows = 0
  readonly begun = Promise.withResolvers<void>()
  readonly ended = Promise.withResolvers<number>()
  onData: (chunk: Buffer) => void = () => {}
  onEnd: () => void = () => {}

  constructor(text: string) {
    this.#text = text
    // Whoever waits next hears of it; until then it must not end the process.
    this.begun.promise.catch(() => {})
    this.ended.promise.catch(() => {})
  }
  submit(connection: unknown): void {
    this.wire = connection as Wire
    this.wire.query(this.#text)
  }
  handleCopyInResponse(): void {
    this.begun.resolve()
  }
  handleCopyData({ chunk }: { chunk: Buffer }): void {
    this.onData(chunk)
  }
  handleError(error: Error): void {
    this.error = error
    this.begun.reject(error)
    this.ended.reject(error)
    this.onEnd()
  }
  handleCommandComplete({ text }: { text?: string }): void {
    this.rows = Number(/COPY (\d+)/.exec(text ?? '')?.[1] ?? 0)
  }
  handleReadyForQuery(): void {
    this.ended.resolve(this.rows)
    this.onEnd()
  }
}

/** Rows arrive one by one; they are handed on together. */
const GATHER_BYTES = 256 * 1024
const HELD_BYTES = 4 * 1024 * 1024

/** Chunks of whole rows; returns how many rows there were. */
export async function* copyOut(client: pg.Client, text: string): AsyncGenerator<Buffer, number> {
  const copy = new Copy(text)
  let held: Buffer[] = []
  let bytes = 0
  let wake = Promise.withResolvers<void>()
  let over = false
  copy.onData = (chunk) => {
    // The parser's buffer is used again.
    held.push(Buffer.from(chunk))
    bytes += chunk.length
    if (bytes >= HELD_BYTES) copy.wire!.stream.pause()
    if (bytes >= GATHER_BYTES) wake.resolve()
  }
  copy.onEnd = () => {
    over = true
    wake.resolve()
  }
  client.query(copy)
  while (true) {
    await wake.promise
    wake = Promise.withResolvers()
    const chunk = Buffer.concat(held)
    held = []
    bytes = 0
    if (over) wake.resolve()
    else copy.wire!.stream.resume()
    if (chunk.length > 0) yield chunk
    else if (over) break
  }
  return copy.ended.promise
}

/** Returns how many rows the server took. */
export async function copyIn(client: pg.Client, text: string, chunks: AsyncIterable<Uint8Array>): Promise<number> {
  const copy = new Copy(text)
  client.query(copy)
  await copy.begun.promise
  const wire = copy.wire!
  for await (const chunk of chunks) {
    if (copy.error) throw copy.error
    wire.sendCopyFromChunk(chunk)
    const stream = wire.stream as unknown as { writableNeedDrain: boolean; once(event: 'drain', go: () => void): void }
    if (!stream.writableNeedDrain) continue
    const drained = Promise.withResolvers<void>()
    stream.once('drain', drained.resolve)
    await Promise.race([drained.promise, copy.ended.promise])
  }
  wire.endCopyFrom()
  return copy.ended.promise
}
