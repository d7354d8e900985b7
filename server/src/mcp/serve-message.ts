/**
 * One message of the streamable HTTP transport, without a session: any process can answer any message. The answer is one
 * JSON text, never a stream.
 */
import {
  createMcpHandler,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import { createMcpServer, type ToolHost } from './server.ts'

export interface Message {
  body: unknown
  /** Those of the protocol, which begin with `mcp-`. */
  headers: Record<string, string>
  signal: AbortSignal
}

export async function serveMessage(
  host: ToolHost,
  { body, headers, signal }: Message,
): Promise<{ status: number; text: string }> {
  const request = new Request('http://localhost/mcp', {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    signal,
  })
  const serve = (await isLegacyRequest(request, body)) ? serveWithHandshake : serveStateless
  const response = await serve(host, request, body)
  return { status: response.status, text: await response.text() }
}

/** Since 2026-07-28 each message says all that is needed to answer it. */
function serveStateless(host: ToolHost, request: Request, parsedBody: unknown): Promise<Response> {
  // A subscription would be an open stream, and nothing here changes.
  const handler = createMcpHandler(() => createMcpServer(host), { legacy: 'reject', maxSubscriptions: 0 })
  return handler.fetch(request, { parsedBody })
}

/** Before that a client begins with `initialize`, whose answer it does not need to refer to. */
async function serveWithHandshake(host: ToolHost, request: Request, parsedBody: unknown): Promise<Response> {
  const server = createMcpServer(host)
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
  await server.connect(transport)
  try {
    return await transport.handleRequest(request, { parsedBody })
  } finally {
    await server.close()
  }
}
