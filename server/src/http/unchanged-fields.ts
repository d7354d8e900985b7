/**
 * Read an object, change one field, send all of it back: that is how most clients use PUT. So a PUT also takes the fields
 * that the GET of the same path returns and that it cannot change, as long as they say what GET says now; a different
 * value is refused, because ignoring it would look like a change.
 *
 * They are set aside before the body is validated and compared with a fresh answer of the GET before the handler runs.
 * The comparison tells whether a guess is right, so it needs the access of the GET: an API key may write without reading.
 * The answer may change right after that; what was compared is not written, so nothing can be lost by it.
 */
import { isDeepStrictEqual } from 'node:util'
import type { FastifyRequest, RouteHandlerMethod } from 'fastify'
import { AppError } from '../errors.ts'
import type { App } from './app-type.ts'
import { type Access, actorOf, requireAccess } from './authenticate.ts'
import type { Shape } from './known-fields.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Fields of a PUT that must be what GET returns. */
    setAside: Record<string, unknown> | null
  }
}

interface Read {
  handler: RouteHandlerMethod
  access: Access
  answer: Shape & { [keyword: string]: unknown }
}

export function acceptUnchangedFields(app: App): void {
  const reads = new Map<string, Read>()
  app.decorateRequest('setAside', null)
  app.addHook('onRoute', (route) => {
    const schema = route.schema as { body?: Shape; response?: Record<string, Shape> } | undefined
    const answer = schema?.response?.['200'] as Read['answer'] | undefined
    const access = route.config?.access
    if (route.method === 'GET' && answer?.properties && access !== undefined)
      reads.set(route.url, { handler: route.handler, answer, access })
    if (route.method !== 'PUT' || !schema?.body?.properties) return
    const writable = schema.body.properties
    route.preValidation = [
      ...[route.preValidation ?? []].flat(),
      async (request: FastifyRequest) => setAside(request, reads.get(route.url)?.answer.properties ?? {}, writable),
    ]
    route.preHandler = [
      ...[route.preHandler ?? []].flat(),
      async (request, reply) => {
        const given = request.setAside
        const read = reads.get(route.url)
        if (given === null || read === undefined) return
        requireAccess(actorOf(request), read.access)
        const current = (await read.handler.call(app, request, reply)) as Record<string, unknown>
        requireUnchanged(given, JSON.parse(reply.serializeInput(current, read.answer) as string))
      },
    ]
  })
}

function setAside(request: FastifyRequest, returned: object, writable: object): void {
  const { body } = request
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return
  const isFixed = ([name]: [string, unknown]) => Object.hasOwn(returned, name) && !Object.hasOwn(writable, name)
  const fields = Object.entries(body)
  const fixed = fields.filter(isFixed)
  if (fixed.length === 0) return
  request.setAside = Object.fromEntries(fixed)
  request.body = Object.fromEntries(fields.filter((field) => !isFixed(field)))
}

function requireUnchanged(given: Record<string, unknown>, current: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(given))
    if (!isSame(value, current[name]))
      throw new AppError('invalid_input', `${name}: cannot be changed; leave it out, or send what GET returns now`)
}

const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/

/** The same JSON value; times may be written in another way, as clients do that parse them. */
function isSame(given: unknown, current: unknown): boolean {
  if (typeof given === 'string' && typeof current === 'string' && TIMESTAMP.test(given) && TIMESTAMP.test(current))
    return Date.parse(given) === Date.parse(current)
  return isDeepStrictEqual(given, current)
}
