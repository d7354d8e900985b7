/**
 * Blobs in an S3-compatible store. A put is atomic and durable, as the store guarantees. A larger blob is a multipart
 * upload, which does not exist under its name until it is completed; an upload that was never completed is aborted by
 * `sweep`. Memory per writer is bounded: one block being filled and two in flight.
 */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { OperatorError } from '../errors.ts'
import { checkKey, checkPrefix } from './blob-keys.ts'
import { type BlobInfo, BlobNotFound, type BlobStore, type BlobWriter } from './blobs.ts'
import { createS3Client, escapeXml, readBlocks, readTag, type S3Client, S3Error } from './s3-client.ts'

export interface S3BlobOptions {
  endpoint: string
  region: string
  bucket: string
  prefix: string
  accessKeyId: string
  secretAccessKey: string
  patienceMs?: number | undefined
}

/** S3 requires at least 5 MiB for all blocks except the last, and allows at most 10,000 blocks. */
const FIRST_BLOCK_BYTES = 8 * 1024 * 1024
const UPLOADS_AT_ONCE = 2
const DELETE_BATCH = 1000

export function createS3Blobs(options: S3BlobOptions): BlobStore {
  const client = createS3Client(options, options.patienceMs)
  const prefix = options.prefix.replace(/^\/+|\/+$/g, '')
  const base = prefix === '' ? '' : `${prefix}/`
  const nameOf = (key: string): string => {
    checkKey(key)
    return base + key
  }
  const put = async (key: string, bytes: Uint8Array): Promise<void> => {
    await drain(client.send({ method: 'PUT', key: nameOf(key), body: bytes }))
  }

  return {
    put,

    async writer(key) {
      return createWriter(client, nameOf(key), (bytes) => put(key, bytes))
    },

    async read(key, range) {
      if (range && range.end < range.start) return Readable.from([])
      const headers: Record<string, string> = range ? { range: `bytes=${range.start}-${range.end}` } : {}
      try {
        return (await client.send({ method: 'GET', key: nameOf(key), headers })).body
      } catch (error) {
        // A range that starts beyond the end returns nothing, as for a local file.
        if (error instanceof S3Error && error.status === 416) return Readable.from([])
        throw asNotFound(error, key)
      }
    },

    async stat(key) {
      try {
        const response = await client.send({ method: 'HEAD', key: nameOf(key) })
        await response.body.dump()
        const { 'content-length': size, 'last-modified': modified } = response.headers
        return { key, size: Number(size), modified: new Date(String(modified)) }
      } catch (error) {
        if (error instanceof S3Error && error.status === 404) return null
        throw error
      }
    },

    async delete(keys) {
      for (let start = 0; start < keys.length; start += DELETE_BATCH) {
        await deleteBatch(client, keys.slice(start, start + DELETE_BATCH).map(nameOf))
      }
    },

    list(wanted) {
      checkPrefix(wanted)
      return listBlobs(client, base, wanted)
    },

    async check() {
      const query = { 'list-type': '2', 'max-keys': '1', prefix: base }
      await drain(client.send({ method: 'GET', query })).catch((error: Error) => {
        if (!(error instanceof S3Error)) throw error
        throw new OperatorError(
          error.code === 'NoSuchBucket'
            ? `The bucket '${options.bucket}' of BLOB_URL does not exist at ${options.endpoint}; create it, or correct BLOB_URL, S3_ENDPOINT or S3_REGION.`
            : `The bucket '${options.bucket}' of BLOB_URL cannot be used: ${error.message} Check S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY and their permissions.`,
        )
      })
    },

    async sweep(olderThanMs) {
      await abortStaleUploads(client, base, Date.now() - olderThanMs)
    },
  }
}

async function drain(sending: ReturnType<S3Client['send']>): Promise<void> {
  await (await sending).body.dump()
}

function asNotFound(error: unknown, key: string): unknown {
  return error instanceof S3Error && error.status === 404 ? new BlobNotFound(`There is no blob '${key}'.`) : error
}

function createWriter(client: S3Client, name: string, put: (bytes: Uint8Array) => Promise<void>): BlobWriter {
  let gathered: Uint8Array[] = []
  let gatheredBytes = 0
  let size = 0
  let uploadId: string | null = null
  const etags: Promise<string>[] = []

  /** Grows so that 10,000 blocks reach the largest object the store accepts. */
  const blockBytes = (): number => FIRST_BLOCK_BYTES * (1 + Math.floor(etags.length / 500))

  const uploadBlock = async (): Promise<void> => {
    uploadId ??= await beginUpload(client, name)
    const block = Buffer.concat(gathered, gatheredBytes)
    gathered = []
    gatheredBytes = 0
    const sent = uploadPart(client, name, uploadId, etags.length + 1, block)
    sent.catch(() => undefined)
    etags.push(sent)
    const earlier = etags[etags.length - UPLOADS_AT_ONCE]
    if (earlier && etags.length >= UPLOADS_AT_ONCE) await earlier
  }
  const abort = async (): Promise<void> => {
    gathered = []
    await Promise.allSettled(etags)
    if (uploadId) await drain(client.send({ method: 'DELETE', key: name, query: { uploadId } })).catch(() => undefined)
  }
  return {
    async write(chunk) {
      size += chunk.byteLength
      gathered.push(chunk)
      gatheredBytes += chunk.byteLength
      if (gatheredBytes >= blockBytes()) await uploadBlock()
    },
    async finish() {
      try {
        if (uploadId === null) {
          await put(Buffer.concat(gathered, gatheredBytes))
        } else {
          if (gatheredBytes > 0) await uploadBlock()
          await completeUpload(client, name, uploadId, await Promise.all(etags))
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

async function beginUpload(client: S3Client, name: string): Promise<string> {
  const response = await client.send({ method: 'POST', key: name, query: { uploads: '' } })
  const uploadId = readTag(await response.body.text(), 'UploadId')
  if (!uploadId) throw new Error('The object store started an upload without returning its id; check S3_ENDPOINT')
  return uploadId
}

async function uploadPart(
  client: S3Client,
  name: string,
  uploadId: string,
  number: number,
  body: Buffer,
): Promise<string> {
  const response = await client.send({
    method: 'PUT',
    key: name,
    query: { partNumber: String(number), uploadId },
    body,
  })
  await response.body.dump()
  return String(response.headers.etag)
}

async function completeUpload(client: S3Client, name: string, uploadId: string, etags: string[]): Promise<void> {
  const parts = etags.map(
    (etag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${escapeXml(etag)}</ETag></Part>`,
  )
  const body = `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`
  try {
    const response = await client.send({ method: 'POST', key: name, query: { uploadId }, body })
    const answer = await response.body.text()
    // S3 may answer 200 and report the failure in the body.
    const code = readTag(answer, 'Code')
    if (code) throw new S3Error(200, code, `The object store could not complete '${name}': ${code}.`)
  } catch (error) {
    // A retried request finds the upload gone if the first one succeeded and its answer was lost.
    if (!(error instanceof S3Error && error.code === 'NoSuchUpload')) throw error
    await drain(client.send({ method: 'HEAD', key: name }))
  }
}

async function deleteBatch(client: S3Client, names: string[]): Promise<void> {
  const objects = names.map((name) => `<Object><Key>${escapeXml(name)}</Key></Object>`).join('')
  const body = `<Delete><Quiet>true</Quiet>${objects}</Delete>`
  const headers = { 'content-md5': createHash('md5').update(body).digest('base64') }
  const response = await client.send({ method: 'POST', query: { delete: '' }, headers, body })
  const failed = readBlocks(await response.body.text(), 'Error')
  if (failed.length > 0)
    throw new Error(
      `The object store did not delete ${failed.length} of ${names.length} objects: ${readTag(failed[0]!, 'Code')}.`,
    )
}

async function* listBlobs(client: S3Client, base: string, wanted: string): AsyncGenerator<BlobInfo> {
  let token: string | null = null
  do {
    const query: Record<string, string> = { 'list-type': '2', prefix: base + wanted }
    if (token) query['continuation-token'] = token
    const answer: string = await (await client.send({ method: 'GET', query })).body.text()
    for (const entry of readBlocks(answer, 'Contents')) {
      const key = readTag(entry, 'Key')?.slice(base.length)
      const modified = new Date(readTag(entry, 'LastModified') ?? 0)
      if (key) yield { key, size: Number(readTag(entry, 'Size')), modified }
    }
    token = readTag(answer, 'IsTruncated') === 'true' ? readTag(answer, 'NextContinuationToken') : null
  } while (token)
}

async function abortStaleUploads(client: S3Client, base: string, before: number): Promise<void> {
  let marker: Record<string, string> | null = {}
  while (marker) {
    const query: Record<string, string> = { uploads: '', prefix: base, ...marker }
    const answer: string = await (await client.send({ method: 'GET', query })).body.text()
    for (const entry of readBlocks(answer, 'Upload')) {
      const key = readTag(entry, 'Key')
      const uploadId = readTag(entry, 'UploadId')
      const begun = Date.parse(readTag(entry, 'Initiated') ?? '')
      if (key && uploadId && begun <= before) await drain(client.send({ method: 'DELETE', key, query: { uploadId } }))
    }
    const key = readTag(answer, 'NextKeyMarker')
    const upload = readTag(answer, 'NextUploadIdMarker')
    marker =
      readTag(answer, 'IsTruncated') === 'true' && key ? { 'key-marker': key, 'upload-id-marker': upload ?? '' } : null
  }
}
