/**
 * The bytes of one version of an object. Every request names the version by its ETag, so an object that is overwritten while
 * it is read is noticed; a connection that breaks is taken up again where it broke.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type S3Answer, S3Error } from '../../../s3/client.ts'
import type { S3Object } from '../../../s3/listing.ts'
import { ConnectorError } from '../../contract.ts'
import type { Bucket } from '../bucket.ts'
import { shorten } from '../failures.ts'

/** The object is another one than the listing said, or gone. */
export class ObjectChanged extends ConnectorError {
  constructor(object: S3Object, cause: unknown) {
    super('source', `The object '${shorten(object.key)}' was changed or deleted while it was being read; run again.`, {
      cause,
      transient: true,
    })
  }
}

const TRIES = 5
const FIRST_PAUSE_MS = 200

/** From a byte on, to a byte (exclusive) or to the end. */
export async function* readBytes(
  bucket: Bucket,
  object: S3Object,
  range: { start: number; end?: number } = { start: 0 },
): AsyncGenerator<Buffer> {
  const end = range.end ?? object.size
  let at = range.start
  for (let failures = 0; at < end; ) {
    const answer = await openRange(bucket, object, at, end)
    const before = at
    try {
      for await (const chunk of answer.body as AsyncIterable<Buffer>) {
        if (at + chunk.length > end) throw tooLong(object)
        at += chunk.length
        yield chunk
      }
      if (at === end) return
    } catch (error) {
      bucket.signal.throwIfAborted()
      if (error instanceof ConnectorError) throw error
      failures = at > before ? 1 : failures + 1
      if (failures >= TRIES) throw bucket.explain(error, 'read', object.key)
    } finally {
      answer.body.destroy()
    }
    if (at === before && ++failures >= TRIES) throw tooShort(object)
    await delay(FIRST_PAUSE_MS * 2 ** failures, undefined, { signal: bucket.signal })
  }
}

async function openRange(bucket: Bucket, object: S3Object, start: number, end: number): Promise<S3Answer> {
  const whole = start === 0 && end === object.size
  const headers: Record<string, string> = {
    ...(object.etag === null ? {} : { 'if-match': object.etag }),
    ...(whole ? {} : { range: `bytes=${start}-${end - 1}` }),
  }
  const answer = await bucket.open({ key: object.key, headers }).catch((error: unknown) => {
    if (error instanceof S3Error && (error.status === 404 || error.status === 412))
      throw new ObjectChanged(object, error)
    throw error instanceof S3Error ? bucket.explain(error, 'read', object.key) : error
  })
  const sent = String(answer.headers['content-range'] ?? '')
  if (whole ? answer.status === 200 : sent.startsWith(`bytes ${start}-${end - 1}/`)) return answer
  answer.body.on('error', () => undefined).destroy()
  throw new ConnectorError(
    'source',
    `The store answered a request for bytes ${start} to ${end - 1} of '${shorten(object.key)}' with something else; it does not support ranges as S3 does.`,
  )
}

function tooLong({ key, size }: S3Object): ConnectorError {
  return new ConnectorError('source', `The object '${shorten(key)}' is longer than the ${size} bytes of the listing.`)
}

function tooShort({ key, size }: S3Object): ConnectorError {
  return new ConnectorError(
    'source',
    `The store does not return all ${size} bytes of the object '${shorten(key)}'; try again later.`,
    { transient: true },
  )
}
