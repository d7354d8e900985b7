/**
 * The ways to log in. A server may ask for any of them at any time, so each is refused where it would give the password
 * away: in clear text, or by RSA with a key that the server itself sent, only within TLS.
 */
import { constants, createHash, publicEncrypt } from 'node:crypto'
import { Violation } from './violation.ts'

export interface Secrets {
  password: string
  encrypted: boolean
  /** PEM of the key that the password may be encrypted with where there is no TLS. */
  publicKey?: string | undefined
}

const sha1 = (...parts: Buffer[]): Buffer => hash('sha1', parts)
const sha256 = (...parts: Buffer[]): Buffer => hash('sha256', parts)

function hash(algorithm: string, parts: readonly Buffer[]): Buffer {
  const digest = createHash(algorithm)
  for (const part of parts) digest.update(part)
  return digest.digest()
}

function xor(one: Buffer, other: Buffer): Buffer {
  return Buffer.from(one.map((byte, index) => byte ^ other[index % other.length]!))
}

const clear = (password: string): Buffer => Buffer.from(`${password}\0`)

/** The first answer of a plugin to the server's salt. */
export function answerPlugin(plugin: string, salt: Buffer, secrets: Secrets): Buffer {
  const password = Buffer.from(secrets.password)
  switch (plugin) {
    case 'mysql_native_password': {
      if (password.length === 0) return Buffer.alloc(0)
      const once = sha1(password)
      return xor(once, sha1(salt, sha1(once)))
    }
    case 'caching_sha2_password': {
      if (password.length === 0) return Buffer.alloc(0)
      const once = sha256(password)
      return xor(once, sha256(sha256(once), salt))
    }
    case 'mysql_clear_password':
      if (!secrets.encrypted)
        throw refused(
          'it asks for the password in clear text, which is only sent within TLS; set `tls.mode` to verify-full',
        )
      return clear(secrets.password)
    default:
      throw refused(
        `it asks for the authentication plugin ${JSON.stringify(plugin.slice(0, 64))}; supported are mysql_native_password, caching_sha2_password and, within TLS, mysql_clear_password. Give the user one of them`,
      )
  }
}

const FAST_DONE = 3
const FULL_NEEDED = 4

/** The answer to further data of caching_sha2_password; null if nothing is to be sent. */
export function answerMore(plugin: string, data: Buffer, salt: Buffer, secrets: Secrets): Buffer | null {
  if (plugin !== 'caching_sha2_password' || data.length !== 1)
    throw new Violation('it goes on with a login that is over')
  if (data[0] === FAST_DONE) return null
  if (data[0] !== FULL_NEEDED) throw new Violation('its answer to the password is none that caching_sha2_password has')
  if (secrets.encrypted) return clear(secrets.password)
  if (secrets.publicKey === undefined)
    throw refused(
      'it wants the whole password, which is only sent within TLS or encrypted with a key that you gave; set `tls.mode` to require or verify-full, or give `server_public_key`',
    )
  return encryptPassword(secrets.password, salt, secrets.publicKey)
}

function encryptPassword(password: string, salt: Buffer, key: string): Buffer {
  try {
    return publicEncrypt({ key, padding: constants.RSA_PKCS1_OAEP_PADDING }, xor(clear(password), salt))
  } catch (cause) {
    throw refused(`the password cannot be encrypted with \`server_public_key\` (${(cause as Error).message})`)
  }
}

function refused(reason: string): Violation {
  return new Violation(reason, 'cannot be logged in to')
}
