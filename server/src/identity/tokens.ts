/**
 * Access and refresh tokens: JWTs signed with a shared secret. Verified access tokens are cached, because
 * verification is the most expensive part of a request. Session and membership are still read from the database every time.
 */
import { randomUUID } from 'node:crypto'
import { jwtVerify, SignJWT } from 'jose'

export interface AccessClaims {
  sub: string
  org: string
  sid: string
  exp: number
}

interface RefreshClaims {
  sub: string
  sid: string
}

export interface TokenSettings {
  JWT_SECRET_KEY: string
  JWT_ALGORITHM: 'HS256' | 'HS384' | 'HS512'
  JWT_ACCESS_TOKEN_EXPIRE_MINUTES: number
  JWT_REFRESH_TOKEN_EXPIRE_DAYS: number
}

export interface Tokens {
  signAccess(claims: { sub: string; org: string; sid: string }): Promise<string>
  signRefresh(claims: { sub: string; sid: string }): Promise<string>
  /** Null unless it is a valid, unexpired token of this kind. */
  verifyAccess(token: string): Promise<AccessClaims | null>
  verifyRefresh(token: string): Promise<RefreshClaims | null>
  accessSeconds: number
  /** A session is kept for as long as one of its tokens could be valid. */
  sessionSeconds: number
}

const REMEMBERED = 10_000
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export function createTokens(settings: TokenSettings): Tokens {
  const key = new TextEncoder().encode(settings.JWT_SECRET_KEY)
  const alg = settings.JWT_ALGORITHM
  const accessSeconds = settings.JWT_ACCESS_TOKEN_EXPIRE_MINUTES * 60
  const refreshSeconds = settings.JWT_REFRESH_TOKEN_EXPIRE_DAYS * 86_400
  const remembered = new Map<string, AccessClaims>()

  const sign = (claims: Record<string, string>, seconds: number) => {
    const now = Math.floor(Date.now() / 1000)
    return new SignJWT({ ...claims, jti: randomUUID() })
      .setProtectedHeader({ alg, typ: 'JWT' })
      .setIssuedAt(now)
      .setExpirationTime(now + seconds)
      .sign(key)
  }
  const verify = async (token: string, type: string, fields: string[]): Promise<Record<string, unknown> | null> => {
    try {
      const { payload } = await jwtVerify(token, key, { algorithms: [alg], requiredClaims: ['exp', 'iat', 'jti'] })
      const complete = payload.type === type && fields.every((field) => UUID.test(String(payload[field])))
      return complete ? payload : null
    } catch {
      return null
    }
  }

  return {
    accessSeconds,
    sessionSeconds: Math.max(accessSeconds, refreshSeconds),
    signAccess: ({ sub, org, sid }) => sign({ sub, org, sid, type: 'access' }, accessSeconds),
    signRefresh: ({ sub, sid }) => sign({ sub, sid, type: 'refresh' }, refreshSeconds),
    async verifyAccess(token) {
      let claims = remembered.get(token) ?? null
      if (claims === null) {
        claims = (await verify(token, 'access', ['sub', 'org', 'sid'])) as AccessClaims | null
        if (claims === null) return null
        if (remembered.size >= REMEMBERED) remembered.delete(remembered.keys().next().value!)
        remembered.set(token, claims)
      }
      if (claims.exp * 1000 > Date.now()) return claims
      remembered.delete(token)
      return null
    },
    verifyRefresh: async (token) => (await verify(token, 'refresh', ['sub', 'sid'])) as RefreshClaims | null,
  }
}
