/** AWS Signature Version 4, to the extent that an object store needs it. */
import { createHash, createHmac } from 'node:crypto'

export interface SigningKey {
  accessKeyId: string
  secretAccessKey: string
  /** Of temporary credentials. */
  sessionToken?: string | undefined
  region: string
}

export interface SignedRequest {
  method: string
  host: string
  /** Already encoded with `encodePath`. */
  path: string
  query: Record<string, string>
  headers: Record<string, string>
  /** SHA-256 of the body, in hex. */
  bodyHash: string
}

/** The headers of a request, including `authorization`. */
export function signRequest(request: SignedRequest, key: SigningKey, now: Date): Record<string, string> {
  const time = now.toISOString().replace(/[-:]|\.\d{3}/g, '')
  const headers: Record<string, string> = {
    ...request.headers,
    host: request.host,
    'x-amz-content-sha256': request.bodyHash,
    'x-amz-date': time,
    ...(key.sessionToken === undefined ? {} : { 'x-amz-security-token': key.sessionToken }),
  }
  const names = Object.keys(headers).sort()
  const canonical = [
    request.method,
    request.path,
    encodeQuery(request.query),
    ...names.map((name) => `${name}:${headers[name]!.trim().replace(/ +/g, ' ')}`),
    '',
    names.join(';'),
    request.bodyHash,
  ].join('\n')
  const scope = `${time.slice(0, 8)}/${key.region}/s3/aws4_request`
  const toSign = ['AWS4-HMAC-SHA256', time, scope, sha256(canonical)].join('\n')
  const signature = hmac(deriveKey(key, time.slice(0, 8)), toSign).toString('hex')
  headers.authorization = `AWS4-HMAC-SHA256 Credential=${key.accessKeyId}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`
  return headers
}

function deriveKey(key: SigningKey, day: string): Buffer {
  const ofDay = hmac(`AWS4${key.secretAccessKey}`, day)
  return hmac(hmac(hmac(ofDay, key.region), 's3'), 'aws4_request')
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}

export function sha256(body: string | Uint8Array): string {
  return createHash('sha256').update(body).digest('hex')
}

/**
 * Percent-encodes everything except unreserved characters, as the signature requires; encodeURIComponent leaves a few
 * more.
 */
function encodeSegment(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
}

export function encodePath(path: string): string {
  return path.split('/').map(encodeSegment).join('/')
}

export function encodeQuery(query: Record<string, string>): string {
  return Object.keys(query)
    .sort()
    .map((name) => `${encodeSegment(name)}=${encodeSegment(query[name]!)}`)
    .join('&')
}
