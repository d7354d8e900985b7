/** Requests to the API, typed by its OpenAPI document. An error answer is thrown with its sentence and request id. */
import createClient, { type Middleware } from 'openapi-fetch'
import type { components, paths } from '../../../clients/typescript/src/schema.d.ts'
import { freshAccessToken, getPageIdentity, renew } from './session.ts'

export type Schemas = components['schemas']

export class ApiError extends Error {
  readonly status: number
  readonly requestId: string | null
  readonly retryAfterSeconds: number | null
  constructor(status: number, detail: string, headers: Headers) {
    super(detail)
    this.name = 'ApiError'
    this.status = status
    this.requestId = headers.get('x-request-id')
    const wait = Number(headers.get('retry-after') ?? Number.NaN)
    this.retryAfterSeconds = Number.isFinite(wait) ? wait : null
  }
}

const throwErrors: Middleware = {
  async onResponse({ response }) {
    if (response.ok) return
    throw await toError(response)
  },
  onError() {
    return new Error('The server cannot be reached. Check the connection and try again.')
  },
}

export const api = createClient<paths>({ baseUrl: '/', fetch: authorized })
api.use(throwErrors)

/** What needs no session, and must get through while one is asked for. */
const PUBLIC = /^\/api\/(auth\/(login|register|idp)|users\/invitations\/preview)$/

/** A fetch with the person's token. A token that the server refuses is renewed once. */
export async function authorized(request: Request): Promise<Response> {
  if (PUBLIC.test(new URL(request.url).pathname)) return fetch(request)
  const whose = getPageIdentity()
  for (let first = true; ; first = false) {
    const token = await freshAccessToken()
    if (whose !== null && getPageIdentity() !== whose)
      throw new Error('Another organization was opened meanwhile; nothing was sent.')
    if (token === null) return fetch(request)
    // A request can be sent once, and its body read once: the second attempt needs its own copy.
    const response = await fetch(withToken(request.clone(), token))
    if (response.status !== 401 || !first) return response
    await renew(token)
  }
}

/** What the answer holds; never undefined, because errors are thrown. */
export async function answer<T>(pending: Promise<{ data?: T }>): Promise<T> {
  return (await pending).data as T
}

/** The list and how many there are in all. */
export async function answerList<T>(pending: Promise<{ data?: T[]; response: Response }>): Promise<{
  items: T[]
  total: number
}> {
  const { data, response } = await pending
  const items = data ?? []
  return { items, total: Number(response.headers.get('x-total-count') ?? items.length) }
}

/** For answers of `authorized`, which throws nothing. */
export async function toError(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => null)
  const detail =
    typeof body === 'object' && body !== null && 'detail' in body && typeof body.detail === 'string'
      ? body.detail
      : `The server answered with status ${response.status}`
  return new ApiError(response.status, detail, response.headers)
}

function withToken(request: Request, token: string): Request {
  request.headers.set('Authorization', `Bearer ${token}`)
  return request
}
