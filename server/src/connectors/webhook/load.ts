/**
 * Loads by requests, exactly once if the receiver recognises their keys (`commits: batch`). Nothing is sent before the
 * checkpoint is stored with us, so records wait in a file until then. They are divided into requests by their number and
 * size, never by how they arrive: a checkpoint that is sent again consists of the same requests with the same keys.
 */
import { createReadStream } from 'node:fs'
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { watchSpace } from '../../blobs/disk-space.ts'
import { cutLines } from '../../json/lines.ts'
import { batchId, ConnectorError, type Load, type LoadContext } from '../contract.ts'
import { sendBatch } from './send-batch.ts'
import type { Settings } from './settings.ts'

/** A checkpoint is asked for when so much waits. */
const ASK_BYTES = 4 * 1024 * 1024
const NEWLINE = 10

export async function openLoad(context: LoadContext<Settings>): Promise<Load> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-webhook-'))
  const makeRoom = watchSpace(folder)
  let file: FileHandle | null = null
  let files = 0
  let bytes = 0
  let path = ''

  async function send(checkpoint: number): Promise<void> {
    let number = 0
    for await (const records of cutBatches(readSpool(path), context.config)) {
      const key = `${batchId(context, checkpoint)}/${++number}`
      await context.fault('webhook.send')
      const reason = await sendBatch(context, { key, body: writeBody(context, key, records) })
      await context.fault('webhook.sent')
      if (reason !== null) await refuse(context, records, reason)
    }
  }

  return {
    async write(page) {
      if (page.bytes.length === 0) return
      path = file === null ? join(folder, String(++files)) : path
      file ??= await open(path, 'wx', 0o600)
      makeRoom(page.bytes.length)
      await file.writeFile(page.bytes)
      bytes += page.bytes.length
      if (bytes >= ASK_BYTES) context.requestCheckpoint()
    },
    async commit(checkpoint) {
      if (file === null) return
      await file.close()
      file = null
      bytes = 0
      await send(checkpoint)
      await rm(path, { force: true })
    },
    async publish() {
      await rm(folder, { recursive: true, force: true })
    },
    async abort() {
      await file?.close().catch(() => undefined)
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const readSpool = (path: string): AsyncIterable<Buffer> =>
  cutLines(createReadStream(path, { highWaterMark: 256 * 1024 }))

/** Lists of records, without their newlines. */
async function* cutBatches(
  pages: AsyncIterable<Buffer>,
  { batch_records, batch_bytes }: Settings,
): AsyncGenerator<Buffer[]> {
  let batch: Buffer[] = []
  let bytes = 0
  for await (const page of pages) {
    for (let start = 0; start < page.length; ) {
      const end = page.indexOf(NEWLINE, start)
      const record = page.subarray(start, end)
      start = end + 1
      if (record.length === 0) continue
      if (batch.length >= batch_records || (batch.length > 0 && bytes + record.length > batch_bytes)) {
        yield batch
        batch = []
        bytes = 0
      }
      batch.push(Buffer.from(record))
      bytes += record.length
    }
  }
  if (batch.length > 0) yield batch
}

function writeBody({ config, run_id, stream }: LoadContext<Settings>, key: string, records: readonly Buffer[]): Buffer {
  if (config.format === 'ndjson') return Buffer.concat(records.flatMap((record) => [record, Buffer.from('\n')]))
  const head = JSON.stringify({ batch: key, run_id, stream }).slice(0, -1)
  const comma = Buffer.from(',')
  const list = records.flatMap((record, at) => (at === 0 ? [record] : [comma, record]))
  return Buffer.concat([Buffer.from(`${head},"records":[`), ...list, Buffer.from(']}')])
}

async function refuse({ refused }: LoadContext<Settings>, records: readonly Buffer[], reason: string): Promise<void> {
  if (!refused) throw new ConnectorError('destination', reason)
  for (const record of records) await refused.add(record.toString('utf8'), reason)
}
