/**
 * Writing objects. A put is atomic and durable, as the store guarantees. What is larger than a block is a multipart upload,
 * which does not exist under its name until it is completed. Memory is bounded: one block being filled and two in flight.
 */
import { createHash } from 'node:crypto'
import { drain, type S3Client, S3Error, sendForText } from './client.ts'
import { escapeXml, readBlocks, readTag } from './xml.ts'

export interface ObjectWriter {
  /** Resolves when more may be written. The chunk has been copied by then. */
  write(chunk: Uint8Array): Promise<void>
  finish(): Promise<{ size: number }>
  /** Leaves nothing behind, unless the store cannot be reached. */
  abort(): Promise<void>
}

/** S3 requires at least 5 MiB for all blocks except the last, and allows at most 10,000 blocks. */
const FIRST_BLOCK_BYTES = 8 * 1024 * 1024
const SMALL_BYTES = 64 * 1024
const UPLOADS_AT_ONCE = 2
const DELETE_BATCH = 1000
const ANSWER_BYTES = 1024 * 1024

/** `cleaner` sends what has to be sent even after the client's signal was aborted. */
export function createObjectWriter(
  client: S3Client,
  key: string,
  headers: Record<string, string> = {},
  cleaner = client,
): ObjectWriter {
  const spare: Buffer[] = []
  let block: Buffer = Buffer.alloc(0)
  let used = 0
  let size = 0
  let uploadId: string | null = null
  const etags: Promise<string>[] = []

  /** Grows so that 10,000 blocks reach the largest object the store accepts. */
  const blockBytes = (): number => FIRST_BLOCK_BYTES * (1 + Math.floor(etags.length / 500))

  /** Most objects are small, so the first buffer is, too. Large ones are used again, because V8 answers to new ones with work. */
  const makeRoom = (wanted: number): void => {
    if (wanted <= block.length) return
    const least = Math.min(Math.max(2 * block.length, wanted, SMALL_BYTES), blockBytes())
    const larger = spare.find(({ length }) => length >= least) ?? Buffer.allocUnsafeSlow(least)
    if (spare.includes(larger)) spare.splice(spare.indexOf(larger), 1)
    block.copy(larger, 0, 0, used)
    block = larger
  }
  const uploadBlock = async (): Promise<void> => {
    uploadId ??= await beginUpload(client, key, headers)
    const full = block
    const body = block.subarray(0, used)
    block = Buffer.alloc(0)
    used = 0
    const sent = uploadPart(client, key, uploadId, etags.length + 1, body).then((etag) => {
      spare.push(full)
      return etag
    })
    sent.catch(() => undefined)
    etags.push(sent)
    const earlier = etags[etags.length - UPLOADS_AT_ONCE]
    if (earlier && etags.length >= UPLOADS_AT_ONCE) await earlier
  }
  const abort = async (): Promise<void> => {
    used = 0
    await Promise.allSettled(etags)
    if (uploadId) await drain(cleaner.send({ method: 'DELETE', key, query: { uploadId } })).catch(() => undefined)
  }
  return {
    async write(chunk) {
      size += chunk.byteLength
      for (let at = 0; at < chunk.byteLength; ) {
        const piece = chunk.subarray(at, at + blockBytes() - used)
        makeRoom(used + piece.byteLength)
        block.set(piece, used)
        used += piece.byteLength
        at += piece.byteLength
        if (used >= blockBytes()) await uploadBlock()
      }
    },
    async finish() {
      try {
        if (uploadId === null) {
          await putObject(client, key, block.subarray(0, used), headers)
        } else {
          if (used > 0) await uploadBlock()
          await completeUpload(client, key, uploadId, await Promise.all(etags))
        }
        return { size }
      } catch (error) {
        await abort()
        throw error
      }
    },
    abort,
  }
}

export async function putObject(
  client: S3Client,
  key: string,
  body: Uint8Array | string,
  headers: Record<string, string> = {},
): Promise<void> {
  await drain(client.send({ method: 'PUT', key, body, headers }))
}

async function beginUpload(client: S3Client, key: string, headers: Record<string, string>): Promise<string> {
  const answer = await sendForText(client, { method: 'POST', key, query: { uploads: '' }, headers }, ANSWER_BYTES)
  const uploadId = readTag(answer, 'UploadId')
  if (!uploadId || uploadId.length > 4096)
    throw new S3Error(200, 'NoUploadId', { reason: 'it started an upload without returning its id' })
  return uploadId
}

async function uploadPart(
  client: S3Client,
  key: string,
  uploadId: string,
  number: number,
  body: Buffer,
): Promise<string> {
  const query = { partNumber: String(number), uploadId }
  const { headers } = await drain(client.send({ method: 'PUT', key, query, body }))
  return String(headers.etag)
}

async function completeUpload(client: S3Client, key: string, uploadId: string, etags: string[]): Promise<void> {
  const parts = etags.map(
    (etag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${escapeXml(etag)}</ETag></Part>`,
  )
  const body = `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`
  try {
    const answer = await sendForText(client, { method: 'POST', key, query: { uploadId }, body }, ANSWER_BYTES)
    // S3 may answer 200 and report the failure in the body.
    const code = readTag(answer, 'Code')
    if (code) throw new S3Error(200, code, { reason: readTag(answer, 'Message') })
  } catch (error) {
    // A retried request finds the upload gone if the first one succeeded and its answer was lost.
    if (!(error instanceof S3Error && error.code === 'NoSuchUpload')) throw error
    await drain(client.send({ method: 'HEAD', key }))
  }
}

/** Objects that are not there count as deleted. */
export async function deleteObjects(client: S3Client, keys: readonly string[]): Promise<void> {
  for (let start = 0; start < keys.length; start += DELETE_BATCH)
    await deleteBatch(client, keys.slice(start, start + DELETE_BATCH))
}

async function deleteBatch(client: S3Client, keys: readonly string[]): Promise<void> {
  const objects = keys.map((key) => `<Object><Key>${escapeXml(key)}</Key></Object>`).join('')
  const body = `<Delete><Quiet>true</Quiet>${objects}</Delete>`
  const headers = { 'content-md5': createHash('md5').update(body).digest('base64') }
  const answer = await sendForText(client, { method: 'POST', query: { delete: '' }, headers, body }, ANSWER_BYTES)
  const failed = readBlocks(answer, 'Error')
  if (failed.length > 0)
    throw new S3Error(200, readTag(failed[0]!, 'Code') ?? 'DeleteFailed', {
      reason: `${failed.length} of ${keys.length} objects were not deleted`,
    })
}

/** Aborts uploads under the prefix that were begun before this time and never completed. */
export async function abortStaleUploads(client: S3Client, prefix: string, before: number): Promise<void> {
  let marker: Record<string, string> | null = {}
  while (marker) {
    const query: Record<string, string> = { uploads: '', prefix, ...marker }
    const answer: string = await sendForText(client, { method: 'GET', query }, 8 * ANSWER_BYTES)
    for (const entry of readBlocks(answer, 'Upload')) {
      const key = readTag(entry, 'Key')
      const uploadId = readTag(entry, 'UploadId')
      const begun = Date.parse(readTag(entry, 'Initiated') ?? '')
      if (key?.startsWith(prefix) && uploadId && begun <= before)
        await drain(client.send({ method: 'DELETE', key, query: { uploadId } }))
    }
    const key = readTag(answer, 'NextKeyMarker')
    const upload = readTag(answer, 'NextUploadIdMarker')
    marker =
      readTag(answer, 'IsTruncated') === 'true' && key ? { 'key-marker': key, 'upload-id-marker': upload ?? '' } : null
  }
}
