/** What went wrong at a bucket, and what to do about it. Words of the server are quoted, shortened, and never trusted. */

import { EgressFailed, EgressRefused } from '../../egress/policy.ts'
import { S3Error, type S3Place, S3Unavailable } from '../../s3/client.ts'
import { AnswerTooLarge } from '../../s3/xml.ts'
import { ConnectorError } from '../contract.ts'
import type { Side } from '../http-failures.ts'

export type Action = 'list' | 'read' | 'write' | 'delete'

interface Failed {
  action: Action
  /** The key, or the prefix of a listing. */
  key: string
  side: Side
  place: S3Place
}

const rights: Record<Action, { verb: string; right: string }> = {
  list: { verb: 'list', right: 's3:ListBucket on the bucket' },
  read: { verb: 'read', right: 's3:GetObject on its objects' },
  write: { verb: 'write to', right: 's3:PutObject on its objects' },
  delete: { verb: 'delete from', right: 's3:DeleteObject on its objects' },
}

const MOVED = new Set([301, 302, 303, 307, 308])

export function explainFailure(error: unknown, failed: Failed): unknown {
  const { side, place } = failed
  const host = new URL(place.endpoint).host
  if (error instanceof EgressRefused)
    return new ConnectorError('config', `The bucket cannot be reached: ${error.message}`, { cause: error })
  if (error instanceof EgressFailed)
    return new ConnectorError(side, `The bucket cannot be reached: ${error.message}`, {
      cause: error,
      transient: error.reason !== 'request' && error.reason !== 'too_large',
    })
  if (error instanceof S3Unavailable) return explainUnavailable(error, failed, host)
  if (error instanceof AnswerTooLarge)
    return new ConnectorError(side, `${host} sent an endless answer; check that endpoint is an S3-compatible store.`, {
      cause: error,
    })
  return error instanceof S3Error ? explainRefusal(error, failed, host) : error
}

function explainUnavailable(error: S3Unavailable, { side }: Failed, host: string): ConnectorError {
  const { cause } = error
  const limited = cause instanceof S3Error && (cause.status === 429 || cause.code === 'SlowDown')
  if (limited)
    return new ConnectorError('rate_limited', `${host} asks to slow down (${cause.code}); try again later.`, { cause })
  const why = cause instanceof S3Error ? `it answers ${cause.status} (${cause.code})` : (cause as Error).message
  return new ConnectorError(
    side,
    `${host} does not work at the moment: ${why}. If it never did, check endpoint: it must be the address of an S3-compatible store.`,
    { cause, transient: true },
  )
}

function explainRefusal(error: S3Error, failed: Failed, host: string): ConnectorError {
  const { action, key, side, place } = failed
  const { code, status, region, reason } = error
  const fail = (kind: 'auth' | 'config' | Side, message: string) => new ConnectorError(kind, message, { cause: error })
  const { bucket } = place
  if (region !== null && region !== place.region && (MOVED.has(status) || status === 400))
    return fail(
      'config',
      `The bucket '${bucket}' is in the region ${region}, not ${place.region}; set region to ${region}.`,
    )
  if (MOVED.has(status))
    return fail(
      'config',
      `${host} redirects requests for the bucket '${bucket}' to another address, which is not followed; set endpoint and region to where the bucket is.`,
    )
  const known = Object.hasOwn(knownCodes, code) && knownCodes[code]!({ bucket, host, place, key: shorten(key), reason })
  if (known) return fail(known[0] ?? side, known[1])
  if (status === 403) {
    const { verb, right } = rights[action]
    return fail('auth', `These keys may not ${verb} the bucket '${bucket}' (${code}): they need ${right}.`)
  }
  if (status === 401) return fail('auth', `${host} answered 401 (${code}): check access_key_id and secret_access_key.`)
  const words = reason === null ? code : `${code}: ${reason}`
  return fail(side, `${host} refused to ${rights[action].verb} the bucket '${bucket}' at '${shorten(key)}' (${words}).`)
}

type Words = { bucket: string; host: string; place: S3Place; key: string; reason: string | null }
type Explained = ['auth' | 'config' | null, string]

const knownCodes: Record<string, (words: Words) => Explained> = {
  InvalidAccessKeyId: ({ host }) => ['auth', `${host} does not know the access key; check access_key_id and endpoint.`],
  SignatureDoesNotMatch: ({ host, place }) => [
    'auth',
    `${host} does not accept the signature: check secret_access_key, and that region is right (it is ${place.region}).`,
  ],
  AuthorizationHeaderMalformed: ({ host, place }) => [
    'config',
    `${host} does not accept the signature for the region ${place.region}; set region to that of the bucket.`,
  ],
  ExpiredToken: () => ['auth', 'The temporary credentials have expired; set new keys and a new session_token.'],
  InvalidToken: () => ['auth', 'The session_token is not valid; set the one that belongs to the keys, or remove it.'],
  RequestTimeTooSkewed: ({ host }) => [
    null,
    `${host} refuses the request because its clock and that of this service differ too much; an operator has to set the clock.`,
  ],
  NoSuchBucket: ({ bucket, host }) => [
    'config',
    `There is no bucket '${bucket}' at ${host}; create it, or correct bucket, endpoint or region.`,
  ],
  InvalidBucketName: ({ bucket, host }) => ['config', `${host} does not accept '${bucket}' as the name of a bucket.`],
  InvalidObjectState: ({ key }) => [
    null,
    `The object '${key}' is archived and cannot be read; restore it, or leave it out with glob.`,
  ],
  UnaddressableKey: ({ key }) => [
    null,
    `The object '${key}' has a segment . or .. in its key, which cannot be addressed; rename it, or leave it out with glob.`,
  ],
  InvalidListing: ({ host, reason }) => [
    null,
    `${host} returned ${reason ?? 'an unusable listing'}; check that endpoint is an S3-compatible store.`,
  ],
}

/** Keys are up to a kilobyte of anything. */
export function shorten(key: string): string {
  const clean = key.replace(/\p{C}/gu, '\ufffd')
  return clean.length <= 200 ? clean : `${clean.slice(0, 200)}…`
}
