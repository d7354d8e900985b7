/**
 * A receiver of the webhook destination as its page asks for one: it verifies signatures, takes each key once, and refuses
 * batches with a record whose name begins with `refused`.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

export interface ReceivedRequest {
  path: string
  method: string
  headers: IncomingMessage['headers']
  body: Buffer
}

export interface RecordReceiver {
  url: string
  requests: ReceivedRequest[]
  /** Everything that was taken at a path, one JSON object each. */
  records(path: string): string[]
  /** Answers instead of the receiver; returns false to let it. */
  intercept: ((request: ReceivedRequest, response: ServerResponse) => boolean) | null
  close(): Promise<void>
}

export async function startRecordReceiver({
  token,
  secret,
}: {
  token: string
  secret: string
}): Promise<RecordReceiver> {
  /** By path and key. */
  const taken = new Map<string, Map<string, Buffer>>()
  const receiver: RecordReceiver = {
    url: '',
    requests: [],
    intercept: null,
    records: (path) => [...(taken.get(path)?.values() ?? [])].flatMap(recordsOf),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }

  const server = createServer(async (request, response) => {
    const { url: path = '', method = '', headers } = request
    const received = { path, method, headers, body: await buffer(request) }
    receiver.requests.push(received)
    if (receiver.intercept?.(received, response)) return
    response.writeHead(answer(received)).end()
  })

  function answer({ path, method, headers, body }: ReceivedRequest): number {
    if (headers.authorization !== `Bearer ${token}`) return 401
    if (method === 'HEAD') return 405
    if (!isGenuine(secret, headers, body)) return 400
    if (recordsOf(body).some((record) => record.includes('"name":"refused'))) return 422
    const batches = taken.get(path) ?? new Map<string, Buffer>()
    taken.set(path, batches)
    const key = String(headers['idempotency-key'])
    const known = batches.get(key)
    if (known && !known.equals(body)) return 409
    batches.set(key, body)
    return 200
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return receiver
}

function isGenuine(secret: string, headers: IncomingMessage['headers'], body: Buffer): boolean {
  const signed = createHmac('sha256', secret).update(`${headers['x-sluice-timestamp']}.`).update(body)
  const expected = Buffer.from(`sha256=${signed.digest('hex')}`)
  const given = Buffer.from(String(headers['x-sluice-signature']))
  return given.length === expected.length && timingSafeEqual(given, expected)
}

/** As they are written, with every digit. */
function recordsOf(body: Buffer): string[] {
  const text = body.toString()
  if (!text.startsWith('{"batch":')) return text.split('\n').slice(0, -1)
  const records: string[] = []
  let [depth, inString, start] = [0, false, 0]
  const from = text.indexOf('"records":[') + '"records":['.length
  for (let at = from; at < text.length - 2; at += 1) {
    const sign = text[at]
    if (inString) {
      if (sign === '\\') at += 1
      else if (sign === '"') inString = false
    } else if (sign === '"') inString = true
    else if (sign === '{' || sign === '[') {
      if (depth === 0) start = at
      depth += 1
    } else if (sign === '}' || sign === ']') {
      depth -= 1
      if (depth === 0) records.push(text.slice(start, at + 1))
    }
  }
  return records
}
