/** JSON Web Tokens (RFC 7515), signed with what Node has. */
import { createHmac, createPrivateKey, type KeyObject, sign } from 'node:crypto'
import type { Json } from '../../json/json.ts'
import { AuthenticationFailed } from './failed.ts'

const HASHES: Record<string, string> = { 256: 'sha256', 384: 'sha384', 512: 'sha512' }
const PSS_PADDING = 6

export interface JwtParts {
  algorithm: string
  /** PEM for asymmetric algorithms, otherwise the shared secret. */
  secret: string | Uint8Array
  passphrase: string | null
  headers: Record<string, Json>
  payload: Record<string, Json>
}

export function signJwt({ algorithm, secret, passphrase, headers, payload }: JwtParts): string {
  const head = encode({ alg: algorithm, typ: 'JWT', ...headers })
  const text = `${head}.${encode(payload)}`
  return `${text}.${signText(text, algorithm, secret, passphrase).toString('base64url')}`
}

const encode = (value: Record<string, Json>): string => Buffer.from(JSON.stringify(value)).toString('base64url')

function signText(text: string, algorithm: string, secret: string | Uint8Array, passphrase: string | null): Buffer {
  const hash = HASHES[algorithm.slice(2, 5)]
  if (algorithm.startsWith('HS') && hash) return createHmac(hash, secret).update(text).digest()
  const key = readKey(secret, passphrase)
  try {
    if (algorithm === 'EdDSA') return sign(null, Buffer.from(text), key)
    if (hash && algorithm.startsWith('ES')) return sign(hash, Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' })
    if (hash && algorithm.startsWith('PS'))
      return sign(hash, Buffer.from(text), { key, padding: PSS_PADDING, saltLength: -1 })
    if (hash && algorithm.startsWith('RS')) return sign(hash, Buffer.from(text), key)
  } catch (error) {
    throw new AuthenticationFailed(`the private key cannot sign ${algorithm}`, { cause: error })
  }
  throw new AuthenticationFailed(`no token can be signed with the algorithm ${algorithm.slice(0, 20)}`)
}

/** PEM is often pasted into one line, with \n written out. */
function readKey(secret: string | Uint8Array, passphrase: string | null): KeyObject {
  const key = typeof secret === 'string' ? secret.replaceAll('\\n', '\n') : Buffer.from(secret)
  try {
    return createPrivateKey(passphrase === null ? { key } : { key, passphrase })
  } catch (error) {
    throw new AuthenticationFailed('the private key is not valid PEM, or its passphrase is wrong', { cause: error })
  }
}
