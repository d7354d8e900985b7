/**
 * Blobs in an S3-compatible store, over the shared client (s3/). A put is atomic and durable, as the store guarantees; an
 * upload that was never completed is aborted by `sweep`.
 */
import { Readable } from 'node:stream'
import { OperatorError } from '../errors.ts'
import {
  type CredentialSource,
  createS3Client,
  drain,
  type S3Client,
  S3Error,
  type S3Request,
  S3Unavailable,
} from '../s3/client.ts'
import { listObjects } from '../s3/listing.ts'
import { abortStaleUploads, createObjectWriter, deleteObjects, putObject } from '../s3/upload.ts'
import { loadUndici } from '../undici.ts'
import { checkKey, checkPrefix } from './blob-keys.ts'
import { type BlobInfo, BlobNotFound, type BlobStore, BlobStoreUnavailable, type BlobWriter } from './blobs.ts'

export interface S3BlobOptions {
  endpoint: string
  region: string
  bucket: string
  prefix: string
  /** Empty if `credentials` gives the keys. */
  accessKeyId: string
  secretAccessKey: string
  credentials?: CredentialSource
  patienceMs?: number | undefined
}

/** How long to wait for an answer before the request is sent again. */
const ANSWER_MS = 30_000
/** How long requests are retried while the store is unavailable: people who wait want to know soon. */
const USUAL_PATIENCE_MS = 4000
/** A run can wait: a store that is unavailable for two minutes only costs it that time. */
export const RUN_PATIENCE_MS = 120_000

export function createS3Blobs(options: S3BlobOptions): BlobStore {
  const client = openClient(options)
  const prefix = options.prefix.replace(/^\/+|\/+$/g, '')
  const base = prefix === '' ? '' : `${prefix}/`
  const nameOf = (key: string): string => {
    checkKey(key)
    return base + key
  }

  return {
    async put(key, bytes) {
      await asBlob(putObject(client, nameOf(key), bytes))
    },

    async writer(key) {
      return asBlobWriter(createObjectWriter(client, nameOf(key)))
    },

    async read(key, range) {
      if (range && range.end < range.start) return Readable.from([])
      const headers: Record<string, string> = range ? { range: `bytes=${range.start}-${range.end}` } : {}
      try {
        return (await asBlob(client.send({ method: 'GET', key: nameOf(key), headers }))).body
      } catch (error) {
        // A range that starts beyond the end returns nothing, as for a local file.
        if (error instanceof S3Error && error.status === 416) return Readable.from([])
        throw error instanceof S3Error && error.status === 404 ? new BlobNotFound(`There is no blob '${key}'.`) : error
      }
    },

    async stat(key) {
      try {
        const { headers } = await drain(asBlob(client.send({ method: 'HEAD', key: nameOf(key) })))
        const { 'content-length': size, 'last-modified': modified } = headers
        return { key, size: Number(size), modified: new Date(String(modified)) }
      } catch (error) {
        if (error instanceof S3Error && error.status === 404) return null
        throw error
      }
    },

    async delete(keys) {
      await asBlob(deleteObjects(client, keys.map(nameOf)))
    },

    list(wanted) {
      checkPrefix(wanted)
      return listBlobs(client, base, wanted)
    },

    async check() {
      const query = { 'list-type': '2', 'max-keys': '1', prefix: base }
      await drain(asBlob(client.send({ method: 'GET', query }))).catch((error: Error) => {
        if (!(error instanceof S3Error)) throw error
        throw new OperatorError(
          error.code === 'NoSuchBucket'
            ? `The bucket '${options.bucket}' of BLOB_URL does not exist at ${options.endpoint}; create it, or correct BLOB_URL, S3_ENDPOINT or S3_REGION.`
            : `The bucket '${options.bucket}' of BLOB_URL cannot be used: ${error.message} Check S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY and their permissions.`,
        )
      })
    },

    sweep: (olderThanMs) => asBlob(abortStaleUploads(client, base, Date.now() - olderThanMs)),
  }
}

async function* listBlobs(client: S3Client, base: string, wanted: string): AsyncGenerator<BlobInfo> {
  const objects = listObjects(client, { prefix: base + wanted })
  while (true) {
    const { value, done } = await asBlob(objects.next())
    if (done) return
    yield { key: value.key.slice(base.length), size: value.size, modified: value.modified }
  }
}

function openClient(options: S3BlobOptions): S3Client {
  const patienceMs = options.patienceMs ?? USUAL_PATIENCE_MS
  // Stores close idle connections without notice; a body that stalls for a minute is considered lost.
  const { Agent, request } = loadUndici()
  const dispatcher = new Agent({
    connections: 16,
    allowH2: false,
    keepAliveTimeout: 4000,
    headersTimeout: Math.min(ANSWER_MS, 2 * patienceMs),
    bodyTimeout: 60_000,
  })
  const transport = async ({ method, url, headers, body }: S3Request) => {
    const answer = await request(url, { method, headers, dispatcher, ...(body === undefined ? {} : { body }) })
    return { status: answer.statusCode, headers: answer.headers, body: answer.body }
  }
  const { credentials } = options
  return createS3Client(options, { transport, patienceMs, ...(credentials && { credentials }) })
}

/** The client's failure as one of the blob store. */
async function asBlob<T>(sending: Promise<T>): Promise<T> {
  return sending.catch((error: Error) => {
    throw error instanceof S3Unavailable ? new BlobStoreUnavailable(error.message, { cause: error }) : error
  })
}

function asBlobWriter(writer: BlobWriter): BlobWriter {
  return {
    write: (chunk) => asBlob(writer.write(chunk)),
    finish: () => asBlob(writer.finish()),
    abort: () => writer.abort(),
  }
}
