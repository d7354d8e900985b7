/**
 * A small S3-compatible server for tests, written from the documentation of the protocol and independent of the client:
 * it computes the signature again from the raw request, and refuses what does not match. It supports objects, ranges,
 * conditions, multipart uploads, paged listing, batch deletes and users with limited rights, and refuses everything else. It
 * replaces a real store only to that extent: npm has no S3 server.
 */
import { createHash, createHmac, randomUUID, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

export interface S3Server {
  endpoint: string
  accessKeyId: string
  secretAccessKey: string
  region: string
  bucket: string
  objects: Map<string, { body: Buffer; modified: Date }>
  uploads: Map<string, { key: string; begun: Date; parts: Map<number, Buffer> }>
  /** Requests seen, as `METHOD /path?query`. */
  seen: string[]
  /** The next `count` requests are answered with this status. */
  failNext(count: number, status: number, headers?: Record<string, string>): void
  /** Answers a request itself if it returns true. It sees the request after its body was read, before any check. */
  intercept: ((request: IncomingMessage, response: ServerResponse) => boolean) | null
  /** Users besides the first, by access key id. */
  users: Map<string, S3User>
  /** Entries per page of a listing. */
  pageSize: number
  close(): Promise<void>
}

export interface S3User {
  secret: string
  /** Temporary credentials come with a token. */
  token?: string
  may(action: 'list' | 'get' | 'put' | 'delete', key: string): boolean
}

const MIN_PART = 5 * 1024 * 1024

export async function startS3Server(host = '127.0.0.1'): Promise<S3Server> {
  let failures = { count: 0, status: 500, headers: {} as Record<string, string> }
  const http = createServer((request, response) => {
    answer(request, response).catch((error) => fail(response, 500, 'InternalError', String(error)))
  })

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<ServerResponse> {
    const body = await buffer(request)
    state.seen.push(`${request.method} ${request.url}`)
    if (state.intercept?.(request, response)) return response
    if (failures.count > 0) {
      failures.count--
      for (const [name, value] of Object.entries(failures.headers)) response.setHeader(name, value)
      return fail(response, failures.status, 'SlowDown', 'asked to fail')
    }
    const id = /Credential=([^/]+)/.exec(request.headers.authorization ?? '')?.[1] ?? ''
    const user = id === state.accessKeyId ? { secret: state.secretAccessKey, may: () => true } : state.users.get(id)
    if (!user) return fail(response, 403, 'InvalidAccessKeyId', 'no such access key')
    const refusal = verify(request, body, { ...state, accessKeyId: id, secretAccessKey: user.secret })
    if (refusal) return fail(response, 403, 'SignatureDoesNotMatch', refusal)
    if (request.headers['x-amz-security-token'] !== user.token) return fail(response, 400, 'InvalidToken', 'token')
    const url = new URL(request.url!, 'http://s3')
    const [, bucket, ...rest] = url.pathname.split('/').map(decodeURIComponent)
    if (bucket !== state.bucket) return fail(response, 404, 'NoSuchBucket', 'no such bucket')
    const key = rest.join('/')
    const action = key === '' ? (request.method === 'POST' ? 'delete' : 'list') : actions[request.method!]!
    const about = key === '' ? (url.searchParams.get('prefix') ?? '') : key
    if (!user.may(action, about)) return fail(response, 403, 'AccessDenied', 'Access Denied')
    const route = key === '' ? routeBucket : routeObject
    return route(
      state,
      { method: request.method!, key, query: url.searchParams, headers: request.headers, body },
      response,
    )
  }

  http.listen(0, host)
  await once(http, 'listening')
  const state: S3Server = {
    endpoint: `http://${host}:${(http.address() as AddressInfo).port}`,
    accessKeyId: 'AKIDTEST',
    secretAccessKey: 'a/secret+key=with signs',
    region: 'eu-test-1',
    bucket: 'sluice-test',
    objects: new Map(),
    uploads: new Map(),
    seen: [],
    pageSize: 1000,
    intercept: null,
    users: new Map(),
    failNext(count, status, headers = {}) {
      failures = { count, status, headers }
    },
    async close() {
      http.closeAllConnections()
      http.close()
      await once(http, 'close')
    },
  }
  return state
}

const actions: Record<string, 'get' | 'put' | 'delete'> = {
  GET: 'get',
  HEAD: 'get',
  PUT: 'put',
  POST: 'put',
  DELETE: 'delete',
}

interface Call {
  method: string
  key: string
  query: URLSearchParams
  headers: IncomingMessage['headers']
  body: Buffer
}

function verify(
  request: IncomingMessage,
  body: Buffer,
  { accessKeyId, secretAccessKey, region }: S3Server,
): string | null {
  const header = request.headers.authorization ?? ''
  const match =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
      header,
    )
  if (!match) return 'no signature'
  const [, id, day, scopeRegion, signed, signature] = match as unknown as string[]
  if (id !== accessKeyId || scopeRegion !== region) return 'another credential'
  const hash = String(request.headers['x-amz-content-sha256'])
  if (createHash('sha256').update(body).digest('hex') !== hash) return 'the body is not the one that was signed'
  const time = String(request.headers['x-amz-date'])
  if (!time.startsWith(day!)) return 'another day'
  const age = Date.now() - Date.parse(time.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
  if (!(Math.abs(age) < 15 * 60_000)) return 'too old'
  const names = signed!.split(';')
  for (const needed of ['host', 'x-amz-date', 'x-amz-content-sha256'])
    if (!names.includes(needed)) return `${needed} is not signed`
  // The path and the query are used as received, so a client that encodes them differently than it signs fails.
  const [path, query = ''] = request.url!.split('?')
  const sortedQuery = query
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => (pair.includes('=') ? pair : `${pair}=`))
    .sort()
    .join('&')
  const headers = names.map((name) => `${name}:${String(request.headers[name]).trim()}\n`).join('')
  const canonical = `${request.method}\n${path}\n${sortedQuery}\n${headers}\n${signed}\n${hash}`
  const text = `AWS4-HMAC-SHA256\n${time}\n${day}/${region}/s3/aws4_request\n${createHash('sha256').update(canonical).digest('hex')}`
  let key: Buffer = Buffer.from(`AWS4${secretAccessKey}`)
  for (const piece of [day!, region, 's3', 'aws4_request']) key = createHmac('sha256', key).update(piece).digest()
  const expected = createHmac('sha256', key).update(text).digest()
  return timingSafeEqual(expected, Buffer.from(signature!, 'hex')) ? null : 'the signature is not right'
}

function routeObject(state: S3Server, call: Call, response: ServerResponse): ServerResponse {
  const { method, key, query, body } = call
  const uploadId = query.get('uploadId')
  if (method === 'POST' && query.has('uploads')) {
    const id = randomUUID()
    state.uploads.set(id, { key, begun: new Date(), parts: new Map() })
    return xml(
      response,
      `<InitiateMultipartUploadResult><Key>${escapeText(key)}</Key><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
    )
  }
  if (uploadId !== null) return routeUpload(state, call, uploadId, response)
  if (method === 'PUT') {
    const current = state.objects.get(key)
    const { 'if-match': wanted, 'if-none-match': unwanted } = call.headers
    if (wanted !== undefined && !current) return fail(response, 404, 'NoSuchKey', 'no such key')
    if ((wanted !== undefined && etag(current!.body) !== wanted) || (unwanted === '*' && current))
      return fail(response, 412, 'PreconditionFailed', 'a condition did not hold')
    state.objects.set(key, { body, modified: new Date() })
    return response.writeHead(200, { etag: etag(body) }).end()
  }
  if (method === 'DELETE') {
    state.objects.delete(key)
    return response.writeHead(204).end()
  }
  const found = state.objects.get(key)
  if (!found) return fail(response, 404, 'NoSuchKey', 'no such key')
  if (method === 'GET' || method === 'HEAD') return serve(found, call, response)
  return fail(response, 400, 'NotImplemented', method)
}

function serve(
  found: { body: Buffer; modified: Date },
  { method, headers }: Call,
  response: ServerResponse,
): ServerResponse {
  if (headers['if-match'] !== undefined && headers['if-match'] !== etag(found.body))
    return fail(response, 412, 'PreconditionFailed', 'a condition did not hold')
  const range = /^bytes=(\d+)-(\d+)$/.exec(String(headers.range ?? ''))
  const size = found.body.length
  const common = { etag: etag(found.body), 'last-modified': found.modified.toUTCString() }
  if (!range) {
    response.writeHead(200, { ...common, 'content-length': size })
    return response.end(method === 'HEAD' ? undefined : found.body)
  }
  const start = Number(range[1])
  if (start >= size) return fail(response, 416, 'InvalidRange', 'behind the end')
  const end = Math.min(Number(range[2]), size - 1)
  const headers206 = { ...common, 'content-length': end - start + 1, 'content-range': `bytes ${start}-${end}/${size}` }
  return response.writeHead(206, headers206).end(found.body.subarray(start, end + 1))
}

function routeUpload(
  state: S3Server,
  { method, key, query, body }: Call,
  id: string,
  response: ServerResponse,
): ServerResponse {
  const upload = state.uploads.get(id)
  if (!upload || upload.key !== key) return fail(response, 404, 'NoSuchUpload', 'no such upload')
  if (method === 'PUT') {
    upload.parts.set(Number(query.get('partNumber')), body)
    return response.writeHead(200, { etag: etag(body) }).end()
  }
  if (method === 'DELETE') {
    state.uploads.delete(id)
    return response.writeHead(204).end()
  }
  const wanted = [...body.toString().matchAll(/<Part><PartNumber>(\d+)<\/PartNumber><ETag>([^<]*)<\/ETag><\/Part>/g)]
  const parts = wanted.map(([, number, tag]) => {
    const part = upload.parts.get(Number(number))
    return part && etag(part) === tag!.replaceAll('&quot;', '"') ? part : null
  })
  if (parts.length === 0 || parts.includes(null))
    return fail(response, 400, 'InvalidPart', 'a part is not what was sent')
  if (parts.slice(0, -1).some((part) => part!.length < MIN_PART))
    return fail(response, 400, 'EntityTooSmall', 'a part is too small')
  state.objects.set(key, { body: Buffer.concat(parts as Buffer[]), modified: new Date() })
  state.uploads.delete(id)
  return xml(response, `<CompleteMultipartUploadResult><Key>${escapeText(key)}</Key></CompleteMultipartUploadResult>`)
}

function routeBucket(
  state: S3Server,
  { method, query, headers, body }: Call,
  response: ServerResponse,
): ServerResponse {
  if (method === 'POST' && query.has('delete')) {
    if (headers['content-md5'] !== createHash('md5').update(body).digest('base64'))
      return fail(response, 400, 'BadDigest', 'md5')
    for (const [, key] of body.toString().matchAll(/<Key>([^<]*)<\/Key>/g)) state.objects.delete(unescapeText(key!))
    return xml(response, '<DeleteResult></DeleteResult>')
  }
  if (method !== 'GET') return fail(response, 400, 'NotImplemented', method)
  const prefix = query.get('prefix') ?? ''
  if (query.has('uploads')) {
    const after = query.get('upload-id-marker') ?? ''
    const all = [...state.uploads]
      .filter(([id, upload]) => upload.key.startsWith(prefix) && id > after)
      .sort(([a], [b]) => (a < b ? -1 : 1))
    const page = all.slice(0, state.pageSize)
    const entries = page.map(
      ([id, { key, begun }]) =>
        `<Upload><Key>${escapeText(key)}</Key><UploadId>${id}</UploadId><Initiated>${begun.toISOString()}</Initiated></Upload>`,
    )
    const more = all.length > page.length
    const marker = more
      ? `<NextKeyMarker>${escapeText(page.at(-1)![1].key)}</NextKeyMarker><NextUploadIdMarker>${page.at(-1)![0]}</NextUploadIdMarker>`
      : ''
    return xml(
      response,
      `<ListMultipartUploadsResult><IsTruncated>${more}</IsTruncated>${marker}${entries.join('')}</ListMultipartUploadsResult>`,
    )
  }
  if (query.get('list-type') !== '2') return fail(response, 400, 'NotImplemented', 'only list v2')
  return listObjects(state, query, response)
}

/** Keys in the order of their UTF-8 bytes; those that share a folder are one entry if there is a delimiter. */
function listObjects(state: S3Server, query: URLSearchParams, response: ServerResponse): ServerResponse {
  const prefix = query.get('prefix') ?? ''
  const delimiter = query.get('delimiter') ?? ''
  const token = query.get('continuation-token')
  const after = token === null ? (query.get('start-after') ?? '') : Buffer.from(token, 'base64').toString()
  const write = query.get('encoding-type') === 'url' ? encodeURIComponent : escapeText
  const keys = [...state.objects.keys()].filter((key) => key.startsWith(prefix))
  const names = keys.map((key) => {
    const end = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length)
    return end === -1 ? key : key.slice(0, end + delimiter.length)
  })
  const all = [...new Set(names)].filter((name) => compare(name, after) > 0).sort(compare)
  const page = all.slice(0, Math.min(state.pageSize, Number(query.get('max-keys') ?? 1000)))
  const entries = page.map((name) => {
    const found = state.objects.get(name)
    if (!found) return `<CommonPrefixes><Prefix>${write(name)}</Prefix></CommonPrefixes>`
    const { body, modified } = found
    return `<Contents><Key>${write(name)}</Key><LastModified>${modified.toISOString()}</LastModified><ETag>${escapeText(etag(body))}</ETag><Size>${body.length}</Size></Contents>`
  })
  const more = all.length > page.length
  const next = more
    ? `<NextContinuationToken>${Buffer.from(page.at(-1)!).toString('base64')}</NextContinuationToken>`
    : ''
  const encoding = query.has('encoding-type') ? '<EncodingType>url</EncodingType>' : ''
  return xml(
    response,
    `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${encoding}<IsTruncated>${more}</IsTruncated>${next}${entries.join('')}</ListBucketResult>`,
  )
}

function compare(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other))
}

function etag(body: Buffer): string {
  return `"${createHash('md5').update(body).digest('hex')}"`
}

function xml(response: ServerResponse, body: string): ServerResponse {
  return response
    .writeHead(200, { 'content-type': 'application/xml' })
    .end(`<?xml version="1.0" encoding="UTF-8"?>${body}`)
}

function fail(response: ServerResponse, status: number, code: string, message: string): ServerResponse {
  response.writeHead(status, { 'content-type': 'application/xml' })
  return response.end(`<Error><Code>${code}</Code><Message>${escapeText(message)}</Message></Error>`)
}

function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function unescapeText(text: string): string {
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&amp;', '&')
}
