/**
 * Headers of every answer. They are few and the same each time, so they are made once: an API's answers are read by
 * programs, and a page's by browsers, which are told to load nothing from elsewhere and to be framed by nobody else.
 *
 * CORS: only a browser sends `Origin`, and only the frontend's is answered with leave to read.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'
import type { Services } from '../services.ts'
import type { App } from './app-type.ts'

const COMMON = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'SAMEORIGIN',
}
/** Answers hold what only their reader may see; a shared cache must keep none of them. */
const API = {
  ...COMMON,
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'self'",
}
const PAGE = {
  ...COMMON,
  'content-security-policy':
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'; object-src 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'x-dns-prefetch-control': 'off',
  'x-permitted-cross-domain-policies': 'none',
}
const HTTPS = { 'strict-transport-security': 'max-age=31536000; includeSubDomains' }

const CORS = {
  'access-control-allow-credentials': 'true',
  'access-control-expose-headers': 'X-Total-Count, X-Request-Id, Retry-After, Content-Disposition, ETag',
  vary: 'Origin',
}
const PREFLIGHT = {
  'access-control-allow-methods': 'GET, HEAD, POST, PUT, DELETE',
  'access-control-allow-headers': 'Authorization, Content-Type, X-API-Key, X-Request-Id, Last-Event-ID, Range',
  'access-control-max-age': '600',
}

/** Everything else is a page or a probe. */
export const isOfApi = (url: string): boolean => url.startsWith('/api/') || /^\/mcp(\?|$)/.test(url)

export function setHeaders(app: App, { config }: Services): void {
  const secure = config.PUBLIC_URL.startsWith('https:') ? HTTPS : {}
  const [forApi, forPages] = [
    { ...API, ...secure },
    { ...PAGE, ...secure },
  ]
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    reply.headers(isOfApi(request.url) ? forApi : forPages)
    if (request.headers.origin !== undefined && answerOrigin(request, reply, config.FRONTEND_URL)) return
    // PostgreSQL has no place for it in a text. Bodies are looked through where they are parsed.
    if (request.url.includes('%00') && !request.routeOptions.config.anyAddress)
      return done(new AppError('invalid_input', 'The address has a NUL character (%00) in it; remove it'))
    done()
  })
}

/** True when the request was a question of the browser alone, and has its answer. */
function answerOrigin(request: FastifyRequest, reply: FastifyReply, frontend: string): boolean {
  // Another origin gets the same answer, which does not name it.
  reply.header('access-control-allow-origin', new URL(frontend).origin).headers(CORS)
  if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) return false
  reply.headers(PREFLIGHT).code(204).send()
  return true
}
