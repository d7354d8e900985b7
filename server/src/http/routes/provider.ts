import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '../../errors.ts'
import {
  beginSignIn,
  cookieNameOf,
  countSignIn,
  finishSignIn,
  requireProvider,
  STATE_SECONDS,
  type StartedSignIn,
} from '../../identity/provider.ts'
import { unlinkIdentity } from '../../identity/provider-accounts.ts'
import { createProviderClient, type ProviderClient } from '../../identity/provider-client.ts'
import { explainCauses, SignInError, signInErrors } from '../../identity/provider-errors.ts'
import type { Services } from '../../services.ts'
import type { App } from '../app-type.ts'
import { actorOf, originOf } from '../authenticate.ts'
import { Message, problems } from '../schemas/common.ts'
import { CallbackQuery, Redirect, RedirectUrl, StartQuery } from '../schemas/provider.ts'

const tags = ['Auth']
const errorList = Object.entries(signInErrors).map(([code, about]) => `- \`${code}\`: ${about}`)
const aboutErrors = `Errors come back to FRONTEND_URL as \`#error=<code>\`:\n\n${errorList.join('\n')}`

export function providerRoutes(app: App, services: Services): void {
  const client = createProviderClient(services.config, services.providerEgress)
  const browser = createBrowserSteps(services.config)
  signInRoutes(app, services, client, browser)
  linkRoutes(app, services, client, browser)
}

type BrowserSteps = ReturnType<typeof createBrowserSteps>

/** Where the browser is sent, and the cookie that it brings back. */
function createBrowserSteps({ PUBLIC_URL, FRONTEND_URL }: Services['config']) {
  const secure = PUBLIC_URL.startsWith('https:')
  // A cookie of this prefix cannot be planted by a sibling host; browsers take it over https only.
  const prefix = secure ? '__Host-' : ''

  function setCookie(reply: FastifyReply, name: string, value: string, seconds: number): void {
    const attributes = ['Path=/', 'HttpOnly', 'SameSite=Lax', `Max-Age=${seconds}`, ...(secure ? ['Secure'] : [])]
    reply.header('Set-Cookie', [`${prefix}${name}=${value}`, ...attributes].join('; '))
  }

  function goToFrontend(reply: FastifyReply, fragment: Record<string, string>): FastifyReply {
    const url = new URL(FRONTEND_URL)
    url.hash = new URLSearchParams(fragment).toString()
    return reply.redirect(url.href, 302)
  }

  return {
    goToFrontend,
    goToProvider(reply: FastifyReply, started: StartedSignIn): string {
      setCookie(reply, started.cookie_name, started.cookie, STATE_SECONDS)
      return started.url
    },
    readCookie: (request: FastifyRequest, name: string) => readCookie(request.headers.cookie, `${prefix}${name}`),
    removeCookie: (reply: FastifyReply, name: string) => setCookie(reply, name, '', 0),
    reportFailure(request: FastifyRequest, reply: FastifyReply, error: unknown): FastifyReply {
      if (!(error instanceof SignInError)) throw error
      request.log.warn(
        { code: error.code, cause: explainCauses(error.cause) },
        'a sign-in at the identity provider failed',
      )
      return goToFrontend(reply, { error: error.code })
    },
  }
}

function signInRoutes(
  app: App,
  { db, tokens, config }: Services,
  client: ProviderClient | null,
  browser: BrowserSteps,
): void {
  app.get(
    '/api/auth/idp',
    {
      exposeHeadRoute: false,
      config: { access: 'public' },
      schema: {
        tags,
        summary: 'Sign in at the identity provider',
        description: aboutErrors,
        querystring: StartQuery,
        response: { 302: Redirect, ...problems('invalid_input', 'too_many_requests') },
      },
    },
    async (request, reply) => {
      const provider = requireProvider(client)
      await countSignIn(db, originOf(request))
      try {
        return reply.redirect(
          browser.goToProvider(reply, await beginSignIn(db, provider, { invitation: request.query.invitation })),
          302,
        )
      } catch (error) {
        return browser.reportFailure(request, reply, error)
      }
    },
  )

  app.get(
    '/api/auth/idp/callback',
    {
      exposeHeadRoute: false,
      config: { access: 'public', anyAddress: true },
      schema: {
        tags,
        summary: 'Where the identity provider sends the browser back',
        description: `Redirects to FRONTEND_URL with \`#access_token=…&refresh_token=…&expires_in=…&token_type=bearer\`, followed by \`&invitation=…\` if the sign-in started with one, or with \`#linked=true\` after linking. ${aboutErrors}`,
        querystring: CallbackQuery,
        response: { 302: Redirect, ...problems('invalid_input') },
      },
    },
    async (request, reply) => {
      const tools = { db, tokens, client: requireProvider(client), signup: config.SIGNUP }
      const query = request.url.split('?').slice(1).join('?')
      const used = cookieNameOf(query)
      if (used !== null) browser.removeCookie(reply, used)
      const cookie = (name: string) => browser.readCookie(request, name)
      try {
        const outcome = await finishSignIn(tools, { query, cookie }, originOf(request))
        if (outcome.kind === 'linked') return browser.goToFrontend(reply, { linked: 'true' })
        const { access_token, refresh_token, expires_in, token_type } = outcome.result
        return browser.goToFrontend(reply, {
          access_token,
          refresh_token,
          expires_in: String(expires_in),
          token_type,
          ...(outcome.invitation !== null && { invitation: outcome.invitation }),
        })
      } catch (error) {
        return browser.reportFailure(request, reply, error)
      }
    },
  )
}

function linkRoutes(app: App, { db }: Services, client: ProviderClient | null, browser: BrowserSteps): void {
  app.get(
    '/api/auth/link/idp',
    {
      exposeHeadRoute: false,
      config: { access: 'person' },
      schema: {
        tags,
        summary: 'Link an account of the identity provider to yours',
        description:
          'Sets a cookie that the same browser brings back, so call it from the page that then goes to `redirect_url`.',
        response: { 200: RedirectUrl, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'unavailable') },
      },
    },
    async (request, reply) => {
      const provider = requireProvider(client)
      try {
        return {
          redirect_url: browser.goToProvider(reply, await beginSignIn(db, provider, { link: actorOf(request) })),
        }
      } catch (error) {
        if (!(error instanceof SignInError)) throw error
        request.log.warn(
          { code: error.code, cause: explainCauses(error.cause) },
          'linking at the identity provider failed',
        )
        throw new AppError('unavailable', 'The identity provider does not answer; try again later')
      }
    },
  )

  app.delete(
    '/api/auth/unlink/idp',
    {
      config: { access: 'person' },
      schema: {
        tags,
        summary: 'Unlink the account of the identity provider',
        description: 'Needs a password, because otherwise there would be no way left to sign in.',
        response: { 200: Message, ...problems('invalid_input', 'unauthenticated', 'forbidden') },
      },
    },
    async (request) => {
      await unlinkIdentity(db, actorOf(request))
      return { message: 'The account of the identity provider is no longer linked' }
    },
  )
}

function readCookie(header: string | undefined, name: string): string | undefined {
  for (const pair of header?.split(';') ?? []) {
    const at = pair.indexOf('=')
    if (at > 0 && pair.slice(0, at).trim() === name) return pair.slice(at + 1).trim()
  }
  return undefined
}
