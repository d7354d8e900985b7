/** `context.fetch`: requests through egress with the source's authentication applied. */
import { untilAborted } from '../../egress/connect.ts'
import type { AnswerHead, Egress } from '../../egress/policy.ts'
import type { Authentication, Fetch, FetchRequest } from '../contract.ts'
import { createCredentials } from './create-credentials.ts'
import type { Header } from './credentials.ts'
import { type RefreshTokens, unstored } from './refresh-tokens.ts'
import { SettingTokens } from './setting-tokens.ts'

export interface FetchOptions {
  egress: Egress
  authentication: Authentication
  /** Aborts every request that has no signal itself. */
  signal?: AbortSignal
  /** Where refresh tokens are stored; without it, a rotated token is lost together with this fetch. */
  refreshTokens?: RefreshTokens
}

/** What only the host of a connector uses. */
export interface HostFetch extends Fetch {
  /** Resolves when no token request is in flight. A process must not exit before, or a rotated token would be lost. */
  settled(): Promise<void>
}

export function createFetch({ egress, authentication, signal, refreshTokens }: FetchOptions): HostFetch {
  const credentials = createCredentials(authentication, egress, refreshTokens)
  const settingTokens = new SettingTokens(refreshTokens ?? unstored)

  /** Sends with the header; if the token is refused, retries once with a new one. */
  async function sendRenewing<Answer extends AnswerHead>(
    url: string | URL,
    request: FetchRequest,
    send: (request: FetchRequest) => Promise<Answer>,
    discard: (refused: Answer) => void,
  ): Promise<Answer> {
    const ends = request.group?.signal ?? request.signal
    const wait = (header: Promise<Header>) => (ends ? untilAborted(header, ends) : header)
    const first = await wait(Promise.resolve(credentials.header() as Header))
    if (hasHeader(request, first.name)) return send(request)
    const answer = await send(withHeader(request, first))
    if (answer.status !== 401 || !isOfSameOrigin(answer.url, url) || !credentials.renew(first)) return answer
    discard(answer)
    const second = await wait(Promise.resolve(credentials.header() as Header))
    const renewed = await send(withHeader(request, second))
    renewed.requests += answer.requests
    return renewed
  }

  function send<Answer extends AnswerHead>(
    url: string | URL,
    given: FetchRequest,
    act: (request: FetchRequest) => Promise<Answer>,
    discard: (refused: Answer) => void,
  ): Promise<Answer> {
    const request = signal && !given.signal && !given.group ? { ...given, signal } : given
    if (request.authenticate === false) return act(request)
    if (credentials.renewable) return sendRenewing(url, request, act, discard)
    try {
      const header = credentials.header() as Header | null
      return act(header === null || hasHeader(request, header.name) ? request : withHeader(request, header))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  const fetch = (url: string | URL, request: FetchRequest = {}) =>
    send(
      url,
      request,
      (sent) => egress.fetch(url, sent),
      ({ body }) => {
        if (request.room) request.room.bytes += body.length
      },
    )
  return Object.assign(fetch, {
    stream: (url: string | URL, request: FetchRequest = {}) =>
      send(
        url,
        request,
        (sent) => egress.stream(url, sent),
        ({ body }) => void body.on('error', () => {}).destroy(),
      ),
    obtained: credentials.obtained,
    remember: (token: string) => credentials.remember(token),
    exchange: settingTokens.exchange.bind(settingTokens),
    settled: async () => {
      await Promise.all([credentials.settled(), settingTokens.settled()])
    },
  })
}

/** A header set by the caller takes precedence. */
function hasHeader({ headers }: FetchRequest, name: string): boolean {
  for (const given in headers) if (given.toLowerCase() === name) return true
  return false
}

function withHeader(request: FetchRequest, { name, value }: Header): FetchRequest {
  return { ...request, headers: { ...request.headers, [name]: value } }
}

/** After a redirect to another origin, the 401 cannot be about our credentials: they were not sent there. */
function isOfSameOrigin(answered: string, asked: string | URL): boolean {
  return URL.parse(answered)?.origin === URL.parse(String(asked))?.origin
}
