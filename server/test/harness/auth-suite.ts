/** Every authentication type that a source lists, against a server that checks exactly what arrives. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { RefreshTokens } from '../../src/connectors/authentication/refresh-tokens.ts'
import type { Authentication } from '../../src/connectors/contract.ts'
import { AUTH_TYPES, type AuthServer, type AuthType, startAuthServer } from './auth-server.ts'
import type { Said } from './said.ts'

/** A source whose records require the right credentials. */
export interface Guarded {
  /** Reads all records and returns their number. Throws what the source throws. */
  read(authentication: Authentication, refreshTokens?: RefreshTokens): Promise<number>
  /** The number of records. */
  records: number
  close(): Promise<void>
}

interface AuthSuite {
  types: readonly string[]
  /** Null: the source accepts authentication but does not use it. */
  open(auth: AuthServer): Promise<Guarded | null>
  said: Said
}

interface Tools {
  auth(): AuthServer
  /** A test for sources that use their authentication. */
  test(name: string, act: (source: Guarded, auth: AuthServer) => Promise<void>): void
  refuses(source: Guarded, authentication: Authentication, message?: RegExp): Promise<void>
}

export function testAuthentication({ types, open, said }: AuthSuite): void {
  const named = AUTH_TYPES.filter((type) => types.includes(type))
  if (types.every((type) => type === 'none')) return

  describe('authentication', () => {
    let auth: AuthServer
    let guarded: Guarded | null
    before(async () => {
      auth = await startAuthServer()
      guarded = await open(auth)
    })
    after(async () => {
      await guarded?.close()
      await auth?.close()
    })
    const tools: Tools = {
      auth: () => auth,
      test: (name, act) =>
        void it(name, async (context) => {
          if (guarded === null) return context.skip('it ignores its authentication')
          auth.reset()
          await act(guarded, auth)
        }),
      refuses: (source, authentication, message) =>
        assert.rejects(source.read(authentication), (error: Error & { kind?: string }) => {
          said.addError(error)
          assert.equal(error.kind, 'auth', error.message)
          if (message) assert.match(error.message, message)
          return true
        }),
    }

    it('has no type that this suite does not know', () => {
      assert.deepEqual(
        types.filter((type) => type !== 'none' && !(AUTH_TYPES as readonly string[]).includes(type)),
        [],
      )
    })
    for (const type of named) testType(tools, type)
    for (const type of named.filter((each) => each.startsWith('oauth2_'))) testTokens(tools, type)
    if (named.includes('oauth2_refresh_token')) testRotation(tools)
    it('never showed a secret of it', () => said.assertNoSecret(auth.secrets))
  })
}

function testType({ test, refuses }: Tools, type: AuthType): void {
  test(`${type} opens the door, and nothing else does`, async (source, auth) => {
    auth.guard(type)
    assert.equal(await source.read(auth.good(type)), source.records)
    await refuses(source, auth.bad(type))
    await refuses(source, { type: 'none', params: {} })
  })
}

function testTokens({ test, refuses }: Tools, type: AuthType): void {
  test(`${type} follows the standard, and uses the form if a server reads only that`, async (source, auth) => {
    auth.guard(type)
    assert.equal(await source.read(auth.good(type)), source.records)
    const grant = type === 'oauth2_refresh_token' ? 'refresh_token' : 'client_credentials'
    assert.deepEqual(
      auth.tokenRequests.map(({ status, form }) => [status, form.grant_type, form.scope]),
      [[200, grant, 'read write']],
    )
    auth.reset()
    auth.naming = 'form'
    assert.equal(await source.read(auth.good(type)), source.records)
    assert.deepEqual(
      auth.tokenRequests.map(({ status }) => status),
      [401, 200],
    )
  })

  test(`${type} renews a refused token, once`, async (source, auth) => {
    auth.guard(type)
    auth.onRequest = (count) => {
      if (count === 1) auth.expireTokens()
    }
    assert.equal(await source.read(auth.good(type)), source.records)
    assert.equal(auth.tokenRequests.length, 2)
    auth.reset()
    auth.onRequest = () => auth.expireTokens()
    await refuses(source, auth.good(type))
    assert.equal(auth.tokenRequests.length, 2)
  })

  test(`${type} explains what is wrong with a token endpoint`, async (source, auth) => {
    auth.guard(type)
    const cases: [NonNullable<AuthServer['onToken']>, RegExp][] = [
      [(_, response) => response.writeHead(500).end('oops'), /did not return a token \(status 500\); try again later/],
      [
        (_, response) => response.writeHead(200).end('<html>'),
        /did not return a token \(status 200\); check token_url/,
      ],
      [(_, response) => response.writeHead(302, { location: 'http://10.0.0.1/' }).end(), /give the final address/],
      [(_, response) => response.end('{"access_token":"a\\r\\nb: c"}'), /did not return a token \(status 200\)/],
    ]
    for (const [onToken, message] of cases) {
      auth.onToken = onToken
      await refuses(source, auth.good(type), message)
    }
  })
}

function testRotation({ test, refuses }: Tools): void {
  test('a rotated refresh token is stored before anything that came with it is used', async (source, auth) => {
    auth.guard('oauth2_refresh_token')
    const events: string[] = []
    auth.onRequest = () => void events.push('request')
    const authentication = auth.good('oauth2_refresh_token')
    let stored = String(authentication.params.refresh_token)
    const refreshTokens: RefreshTokens = {
      begin: async () => stored,
      async end(used, rotated) {
        assert.equal(used, stored)
        // A database takes its time.
        await new Promise((resolve) => setTimeout(resolve, 50))
        stored = rotated!
        events.push('stored')
        return stored
      },
    }
    assert.equal(await source.read(authentication, refreshTokens), source.records)
    assert.deepEqual(events.slice(0, 2), ['stored', 'request'])
    assert.equal(stored, auth.currentToken(String(authentication.params.refresh_token)))
    // The settings still contain the first one: the stored one counts.
    assert.equal(await source.read(authentication, refreshTokens), source.records)
  })

  test('a refresh token that the provider revoked is reported with advice', async (source, auth) => {
    auth.guard('oauth2_refresh_token')
    const authentication = auth.good('oauth2_refresh_token')
    assert.equal(await source.read(authentication), source.records)
    await refuses(source, authentication, /no longer accepts the refresh token.*authorize/)
  })
}
