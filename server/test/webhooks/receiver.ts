/** A webhook receiver on loopback. It answers nothing by itself: the test takes each request and answers it. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { text } from 'node:stream/consumers'
import { after } from 'node:test'

export interface Received {
  path: string
  headers: IncomingHttpHeaders
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever came
  body: any
  answer(status: number, headers?: Record<string, string>, body?: string): void
}

export interface Receiver {
  url: string
  port: number
  /** The total number of requests. */
  count(): number
  /** Waits for the next request that was not taken yet. */
  next(): Promise<Received>
}

export async function startReceiver(): Promise<Receiver> {
  const arrived: Received[] = []
  const waiting: ((request: Received) => void)[] = []
  let count = 0
  const server = createServer(async (request, response) => {
    count++
    const body = await text(request).catch(() => null)
    if (body === null) return
    const received: Received = {
      path: request.url!,
      headers: request.headers,
      text: body,
      body: JSON.parse(body),
      answer: (status, headers = {}, answer = '') => void response.writeHead(status, headers).end(answer),
    }
    const taker = waiting.shift()
    if (taker) taker(received)
    else arrived.push(received)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as { port: number }
  return {
    url: `http://127.0.0.1:${port}/hook`,
    port,
    count: () => count,
    next: () => {
      const first = arrived.shift()
      return first ? Promise.resolve(first) : new Promise((resolve) => waiting.push(resolve))
    },
  }
}

/** As docs/webhooks.md tells receivers to do it. */
export function verify({ headers, text: body }: Received, secret: string): boolean {
  const timestamp = headers['x-sluice-timestamp']
  assert.ok(Math.abs(Date.now() / 1000 - Number(timestamp)) < 300, 'the timestamp is of now')
  const expected = `sha256=${createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')}`
  return headers['x-sluice-signature'] === expected
}
