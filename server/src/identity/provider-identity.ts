import { SignInError } from './provider-errors.ts'

/** Who the provider says this is. */
export interface Identity {
  issuer: string
  subject: string
  /** Lower case; null if the provider gives none. */
  email: string | null
  /** True only if the provider says so explicitly. */
  email_verified: boolean
  name: string | null
  avatar_url: string | null
}

type Claims = Readonly<Record<string, unknown>>

const emailForm = /^[^\s@]+@[^\s@.]+(\.[^\s@.]+)*$/

/**
 * Reads OpenID claims, and the names that plain OAuth 2.0 providers use for the same. Address and verification come from
 * one answer: `email_verified` of one answer must never count for the `email` of another.
 */
export function readIdentity(issuer: string, claims: Claims): Identity {
  const subject = readSubject(claims.sub ?? claims.id ?? claims.user_id)
  if (subject === null) throw new SignInError('provider_error', new Error('the provider gave no subject'))
  const email = readText(claims.email, 254)?.toLowerCase() ?? null
  return {
    issuer,
    subject,
    email: email !== null && emailForm.test(email) ? email : null,
    email_verified: isTrue(claims.email_verified) || isTrue(claims.verified_email),
    name: readText(claims.name ?? claims.preferred_username ?? claims.nickname ?? claims.login, 200),
    avatar_url: readPicture(claims.picture ?? claims.avatar_url),
  }
}

function readSubject(value: unknown): string | null {
  return typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : readText(value, 500)
}

/** A text without characters that PostgreSQL cannot store or a page cannot show. */
function readText(value: unknown, maxLength: number): string | null {
  if (typeof value !== 'string') return null
  const text = value
    .toWellFormed()
    .replace(/[\u0000-\u001f\u007f]/g, '')
    .trim()
  return text === '' || text.length > maxLength ? null : text
}

function readPicture(value: unknown): string | null {
  const text = readText(value, 2048)
  const url = text === null ? null : URL.parse(text)
  return url && (url.protocol === 'https:' || url.protocol === 'http:') ? url.href : null
}

const isTrue = (value: unknown): boolean => value === true || value === 'true'
