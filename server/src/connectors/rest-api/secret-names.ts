/**
 * Settings that hold secrets are marked; requests are not. What is called like a secret there would be shown and logged, so
 * it is refused. Whole names only: `page_token` and `sort_key` are no secrets.
 */
import { fault } from './fault.ts'
import { walk } from './walk.ts'

/** Without case, hyphens and underscores. */
const NAMES = new Set(
  `accesskey appkey applicationkey appsecret auth authkey authorization bearer bearertoken cookie credential credentials jwt
  oauthtoken passphrase passwd password privatekey proxyauthorization pwd refreshtoken secret secretaccesskey securitytoken
  sessiontoken token usertoken xtoken`.split(/\s+/),
)
/** Vendors put words before these: `X-Shopify-Access-Token`, `DD-API-KEY`. */
const ENDINGS =
  /(accesstoken|apikey|apisecret|apitoken|applicationkey|authtoken|clientsecret|password|privatetoken|secretkey|securitytoken|subscriptionkey|vaulttoken)$/
/** `apikey2`, `api_key_v3`; but not the name of a key. */
const API_KEY = /^apikey(?!id|ids|name|names|s$)/

function isSecretName(given: string, inBody: boolean): boolean {
  if (given.length > 100) return false
  const name = given.toLowerCase().replace(/[-_ ]/g, '')
  // In a body, `key` is mostly the name of something: {"key": "status", "value": "open"}.
  return NAMES.has(name) || (name === 'key' && !inBody) || ENDINGS.test(name) || API_KEY.test(name)
}

/** A value that comes from a parent is none of the settings. */
const isGiven = (value: unknown): boolean =>
  typeof value === 'number' || (typeof value === 'string' && value !== '' && !/^\{[^{}]{1,300}\}$/.test(value))

const refuse = (at: string) =>
  fault(at, 'looks like a secret, which is not protected here; use client.auth, or client.headers')

/** Headers or parameters. */
export function refuseSecrets(values: Readonly<Record<string, unknown>> | undefined, at: string): void {
  for (const name of Object.keys(values ?? {}))
    if (isSecretName(name, false) && [values![name]].flat().some(isGiven)) throw refuse(`${at}.${name}`)
}

/** A body at any depth; a text is read as a form. */
export function refuseSecretsInBody(body: unknown, at: string): void {
  if (typeof body === 'string') refuseSecretsInForm(body, at, true)
  walk(body, at, (value, name, holder) => {
    if (name !== null && isGiven(value) && isSecretName(name, true)) throw refuse(`${holder}.${name}`)
  })
}

/** `a=1&token=x`, as in an address after the question mark. */
export function refuseSecretsInForm(text: string, at: string, inBody = false): void {
  for (const field of text.split('&')) {
    const equals = field.indexOf('=')
    if (equals > 0 && equals <= 100 && isGiven(field.slice(equals + 1)) && isSecretName(field.slice(0, equals), inBody))
      throw refuse(at)
  }
}
