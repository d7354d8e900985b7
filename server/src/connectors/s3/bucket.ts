/**
 * A tenant's bucket: the shared S3 client, sent through egress, with its failures as sentences. The other side may be
 * anybody's server. Redirects are never followed, because a request is signed for one host; every answer but an object has a
 * deadline and a size.
 */

import { EgressFailed, EgressRefused } from '../../egress/policy.ts'
import { createS3Client, type S3Answer, type S3Call, type S3Client, S3Error, type S3Request } from '../../s3/client.ts'
import { type ListRequest, listPages, type S3Object } from '../../s3/listing.ts'
import { createObjectWriter, deleteObjects, type ObjectWriter, putObject } from '../../s3/upload.ts'
import { ConnectorError, type Context } from '../contract.ts'
import type { Side } from '../http-failures.ts'
import { type Action, explainFailure } from './failures.ts'
import { type ConnectionSettings, placeOf } from './settings.ts'

/** Listing, putting and deleting; uploading a block of 8 MB over a slow line. */
const ANSWER_MS = 120_000
/** People wait for a check. */
const CHECK_PATIENCE_MS = 3000
const RUN_PATIENCE_MS = 90_000
const CLEANING_MS = 1500
/** Beyond this a listing is not a table any more, and one that never ends is an attack. */
const MOST_LISTED = 10_000_000
const FULL_PAGE = 1000

type BucketContext = Pick<Context<ConnectionSettings>, 'config' | 'egress' | 'signal'>

function openClient({ config, egress, signal }: BucketContext, patienceMs: number): S3Client {
  const transport = async ({ method, url, headers, body, large }: S3Request): Promise<S3Answer> =>
    egress.stream(url, {
      method,
      headers,
      signal,
      maxRedirects: 0,
      decompress: false,
      ...(body === undefined ? {} : { body }),
      ...(large ? {} : { timeoutMs: ANSWER_MS }),
    })
  const isFinal = (error: Error): boolean =>
    error instanceof EgressRefused || (error instanceof EgressFailed && !error.transient)
  return createS3Client(placeOf(config), { transport, isFinal, signal, patienceMs })
}

export class Bucket {
  readonly client: S3Client
  readonly side: Side
  readonly signal: AbortSignal
  readonly #context: BucketContext

  constructor(context: BucketContext, side: Side, patience: 'check' | 'run') {
    const patienceMs = patience === 'check' ? CHECK_PATIENCE_MS : RUN_PATIENCE_MS
    this.client = openClient(context, patienceMs)
    this.side = side
    this.signal = context.signal
    this.#context = context
  }

  async *list(request: ListRequest): AsyncGenerator<S3Object> {
    for await (const { objects } of this.pages(request)) yield* objects
  }

  async *pages(request: ListRequest): AsyncGenerator<{ objects: S3Object[]; folders: string[] }> {
    const pages = listPages(this.client, request)
    for (let listed = 0; listed <= MOST_LISTED; ) {
      const { value, done } = await this.#explained('list', request.prefix, () => pages.next())
      if (done) return
      // A page without entries counts as a full one, or a listing of such pages would never end.
      listed += value.objects.length + value.folders.length || FULL_PAGE
      yield value
    }
    throw new ConnectorError(
      this.side,
      `The listing of '${request.prefix}' has more than ${MOST_LISTED} objects; choose a narrower prefix.`,
    )
  }

  /** The answer to a GET, without explaining what an object's own conditions mean. */
  open(call: Omit<S3Call, 'method'> & { key: string }): Promise<S3Answer> {
    return this.#explained('read', call.key, () => this.client.send({ ...call, method: 'GET' }))
  }

  put(key: string, body: Uint8Array | string, headers: Record<string, string> = {}): Promise<void> {
    return this.#explained('write', key, () => putObject(this.client, key, body, headers))
  }

  writer(key: string, headers: Record<string, string>): ObjectWriter {
    const writer = createObjectWriter(this.client, key, headers, {
      ...this.client,
      // A run that was cancelled still removes what it has uploaded.
      send: (call) => openClient({ ...this.#context, signal: AbortSignal.timeout(CLEANING_MS) }, 0).send(call),
    })
    return {
      write: (chunk) => this.#explained('write', key, () => writer.write(chunk)),
      finish: () => this.#explained('write', key, () => writer.finish()),
      abort: () => writer.abort(),
    }
  }

  async delete(keys: readonly string[]): Promise<void> {
    if (keys.length > 0) await this.#explained('delete', keys[0]!, () => deleteObjects(this.client, keys))
  }

  explain(error: unknown, action: Action, key: string): unknown {
    return explainFailure(error, { action, key, side: this.side, place: this.client.place })
  }

  async #explained<T>(action: Action, key: string, act: () => Promise<T>): Promise<T> {
    try {
      return await act()
    } catch (error) {
      this.signal.throwIfAborted()
      // Conditions are for the caller to judge.
      if (error instanceof S3Error && [404, 412, 409, 501].includes(error.status) && error.code !== 'NoSuchBucket')
        throw error
      throw this.explain(error, action, key)
    }
  }
}
