/**
 * `POST /mcp`: the tools of `sluice mcp` over HTTP. Each call of a tool is one or more requests to the routes of the API, in
 * this process and with the credentials of the caller, so they check, limit and log it like any other request.
 */
import type { FastifyRequest } from 'fastify'
import { AppError } from '../../errors.ts'
import { createGate } from '../../gate.ts'
import { parseExactly } from '../../json/parse-exactly.ts'
import { type Ask, Refused } from '../../mcp/ask.ts'
import type { Services } from '../../services.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { signalOf } from '../disconnect.ts'
import { McpMessage, McpQuery } from '../schemas/mcp.ts'

/** Of this process: a call may wait for the end of a run. */
const gate = createGate({
  total: 200,
  perKey: 20,
  waitingPerKey: 20,
  waitingTotal: 200,
  waitMs: 10_000,
  refuse: () =>
    new AppError('too_many_requests', 'Too many tools are being called at once; try again in a moment', {
      'Retry-After': '5',
    }),
})

export function mcpRoutes(app: App, { config }: Services): void {
  const origins = [config.PUBLIC_URL, config.FRONTEND_URL].map((url) => new URL(url).origin)
  app.post(
    '/mcp',
    {
      config: { access: 'authenticated' },
      schema: { hide: true, body: McpMessage, querystring: McpQuery },
      onRequest: async ({ headers: { origin } }) => requireOrigin(origin, origins),
    },
    async (request, reply) => {
      const signal = signalOf(reply)
      const leave = await gate.enter(actorOf(request).organization_id, signal)
      try {
        const { serveMessage } = await import('../../mcp/serve-message.ts')
        const host = {
          ask: askAs(app, request, signal),
          readOnly: request.query.read_only,
          report(error: unknown) {
            request.log.error({ err: error }, 'a tool failed')
            return `Internal error (request ${request.id})`
          },
        }
        const { status, text } = await serveMessage(host, { body: request.body, headers: ofProtocol(request), signal })
        return reply.code(status).type('application/json; charset=utf-8').send(text)
      } finally {
        leave()
      }
    },
  )
}

/** The protocol demands it: another site must not be able to use a service in its reader's network. */
function requireOrigin(origin: string | undefined, origins: readonly string[]): void {
  if (origin !== undefined && !origins.includes(origin))
    throw new AppError('forbidden', 'Requests from pages of other sites are refused here')
}

const ofProtocol = ({ headers }: FastifyRequest): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      name.startsWith('mcp-') && typeof value === 'string' ? [[name, value]] : [],
    ),
  )

function askAs(app: App, { headers, id, ip }: FastifyRequest, signal: AbortSignal): Ask {
  const { authorization, 'x-api-key': key, 'user-agent': agent } = headers
  const same = Object.fromEntries(
    Object.entries({ authorization, 'x-api-key': key, 'user-agent': agent }).filter(([, value]) => value !== undefined),
  )
  return async <Answer>(method: 'GET' | 'POST', url: string, body?: unknown) => {
    const answer = await app.inject({
      method,
      url,
      remoteAddress: ip,
      headers: { ...same, 'x-request-id': id, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { payload: JSON.stringify(body) }),
      signal,
    })
    if (answer.statusCode >= 300) throw new Refused(answer.statusCode, readDetail(answer.body), id)
    return parseExactly(answer.body) as Answer
  }
}

function readDetail(body: string): string {
  try {
    return String((JSON.parse(body) as { detail?: unknown }).detail)
  } catch {
    return 'The service sent an unexpected answer'
  }
}
