/** Identity providers on loopback: the real oidc-provider, and a plain OAuth 2.0 server of a few lines. */
import { createHash, generateKeyPairSync, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import Provider from 'oidc-provider'

export const CLIENT = { id: 'sluice', secret: 'a secret, with: signs%' }

export interface Person {
  sub: string
  email?: string
  email_verified?: boolean
  name?: string
  picture?: string
}

export interface TestProvider {
  issuer: string
  /** Who is signed in at the provider. Null: they say no. */
  person: Person | null
  /** Called instead of the provider while it is set. */
  intercept: ((request: IncomingMessage, response: ServerResponse) => boolean) | null
  stop(): Promise<void>
}

async function listen(listener: RequestListener): Promise<{ origin: string; stop(): Promise<void> }> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    origin: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

export async function startOidcProvider(redirectUris: string[]): Promise<TestProvider> {
  let handle: RequestListener = () => {}
  const { origin, stop } = await listen((request, response) => {
    if (!self.intercept?.(request, response)) handle(request, response)
  })
  const self: TestProvider = { issuer: origin, person: null, intercept: null, stop }
  const provider = new Provider(origin, {
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        redirect_uris: redirectUris,
        grant_types: ['authorization_code'],
      },
    ],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'picture'] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: () => '/interaction' },
    cookies: { keys: [randomUUID()] },
    jwks: { keys: [{ ...signingKey(), kid: 'test', alg: 'RS256', use: 'sig' }] },
    ttl: { AccessToken: 60, AuthorizationCode: 60, Grant: 60, IdToken: 60, Interaction: 60, Session: 60 },
    pkce: { required: () => true },
    findAccount: (_context: unknown, id: string) => ({ accountId: id, claims: () => ({ ...self.person, sub: id }) }),
  })
  const serve = provider.callback()
  handle = (request, response) => {
    if (request.url?.startsWith('/interaction')) void interact(provider, self.person, request, response)
    else serve(request, response)
  }
  return self
}

const signingKey = () => generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' })

/** Stands for the person who signs in and consents, or does not. */
async function interact(provider: Provider, person: Person | null, request: IncomingMessage, response: ServerResponse) {
  const { params } = await provider.interactionDetails(request, response)
  if (person === null) {
    return provider.interactionFinished(request, response, { error: 'access_denied', error_description: 'no' })
  }
  const grant = new provider.Grant({ accountId: person.sub, clientId: CLIENT.id })
  grant.addOIDCScope(params.scope!)
  const result = { login: { accountId: person.sub, remember: false }, consent: { grantId: await grant.save() } }
  return provider.interactionFinished(request, response, result)
}

export interface PlainProvider extends TestProvider {
  /** What the user info address answers. */
  userinfo: Record<string, unknown>
}

/** Checks client, redirect address and PKCE as a real one would, and knows nothing of OpenID. */
export async function startPlainProvider(): Promise<PlainProvider> {
  const codes = new Map<string, { challenge: string; redirect_uri: string }>()
  const { origin, stop } = await listen(async (request, response) => {
    const url = new URL(request.url!, origin)
    const json = (status: number, body: unknown) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (url.pathname === '/authorize') {
      const back = new URL(url.searchParams.get('redirect_uri')!)
      back.searchParams.set('state', url.searchParams.get('state')!)
      const code = randomUUID()
      codes.set(code, {
        challenge: url.searchParams.get('code_challenge')!,
        redirect_uri: `${back.origin}${back.pathname}`,
      })
      back.searchParams.set('code', code)
      return response.writeHead(302, { location: back.href }).end()
    }
    if (url.pathname === '/token') {
      const form = new URLSearchParams(await text(request))
      const code = codes.get(form.get('code') ?? '')
      codes.delete(form.get('code') ?? '')
      const challenge = createHash('sha256')
        .update(form.get('code_verifier') ?? '')
        .digest('base64url')
      const known = form.get('client_id') === CLIENT.id && form.get('client_secret') === CLIENT.secret
      if (!known) return json(401, { error: 'invalid_client' })
      if (code?.challenge !== challenge || code.redirect_uri !== form.get('redirect_uri')) {
        return json(400, { error: 'invalid_grant' })
      }
      return json(200, { access_token: 'plain-token', token_type: 'bearer' })
    }
    if (url.pathname === '/user' && request.headers.authorization === 'Bearer plain-token')
      return json(200, self.userinfo)
    return json(404, {})
  })
  const self: PlainProvider = { issuer: origin, person: null, intercept: null, userinfo: {}, stop }
  return self
}
