/**
 * A server that answers each statement as a test says: what ClickHouse sends in rare moments, and what a hostile server
 * does. It needs no ClickHouse.
 */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface Asked {
  sql: string
  params: URLSearchParams
  authorization: string
  /** The end of a whole answer. */
  mark: string
  response: ServerResponse
}

export interface ScriptedClickhouse {
  port: number
  asked: Asked[]
  close(): Promise<void>
}

export async function startScriptedClickhouse(answer: (asked: Asked) => void): Promise<ScriptedClickhouse> {
  const all: Asked[] = []
  const server = createServer(async (request, response) => {
    response.on('error', () => undefined)
    const params = new URL(request.url!, 'http://server').searchParams
    const asked: Asked = {
      sql: await text(request),
      params,
      authorization: request.headers.authorization ?? '',
      mark: params.get('format_custom_result_after_delimiter') ?? '',
      response,
    }
    all.push(asked)
    answer(asked)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    asked: all,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Rows in the frame that the connector asks for. */
export const framed = (rows: readonly string[][]): string =>
  rows.map((fields) => `${fields.join('\t')}\u0001\n`).join('')

export function refuse({ response }: Asked, code: number, message: string, status = 500): void {
  response.writeHead(status, { 'x-clickhouse-exception-code': String(code) })
  response.end(`Code: ${code}. DB::Exception: ${message} (version 24.8.1.1 (official build))\n`)
}
