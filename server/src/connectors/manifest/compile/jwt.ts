/** JwtAuthenticator: a token that is signed here. */
import type { JwtPlan } from '../../http/request-plan.ts'
import type { Value } from '../../http/scope.ts'
import { type Component, given, isDict, optionalText, text, wholeNumber } from '../component.ts'
import { Unsupported } from '../problems.ts'
import type { Environment } from './environment.ts'
import { optionalInjection } from './injection.ts'
import { keyOf } from './keys.ts'
import { condition, mapping, type Site, settingText, textValue } from './templates.ts'

/** What the runtime can sign (authentication/sign-jwt.ts). */
const ALGORITHMS = /^(?:(?:HS|RS|PS|ES)(?:256|384|512)|ES256K|EdDSA)$/

export function compileJwt(authenticator: Component, environment: Environment): JwtPlan {
  const site: Site = { environment, owner: authenticator, known: 'jwt' }
  const algorithm = text(authenticator, 'algorithm')
  if (!ALGORITHMS.test(algorithm)) throw new Unsupported(`JwtAuthenticator.algorithm ${algorithm} is not supported`)
  const secret = textValue(text(authenticator, 'secret_key'), site)
  const encoded = given(authenticator, 'base64_encode_secret_key')
  const encode = encoded === undefined ? () => false : condition(encoded, site)
  const prefix = optionalText(authenticator, 'header_prefix')
  const passphrase = optionalText(authenticator, 'passphrase')
  return {
    kind: 'jwt',
    key: keyOf(authenticator),
    algorithm,
    secret: (scope) => (encode(scope) ? Buffer.from(secret(scope), 'utf8').toString('base64') : secret(scope)),
    passphrase: passphrase === null ? null : textValue(passphrase, site),
    headers: fields(
      authenticator,
      { from: 'jwt_headers', names: ['kid', 'typ', 'cty'], more: 'additional_jwt_headers' },
      site,
    ),
    payload: fields(
      authenticator,
      { from: 'jwt_payload', names: ['iss', 'sub', 'aud'], more: 'additional_jwt_payload' },
      site,
    ),
    lifetimeMs: wholeNumber(authenticator, 'token_duration', 1200) * 1000,
    at: optionalInjection(authenticator, 'request_option', environment) ?? { into: 'header', path: ['Authorization'] },
    prefix: prefix === null || environment.checking ? null : settingText(prefix, site),
  }
}

interface Source {
  from: string
  names: readonly string[]
  more: string
}

function fields(
  authenticator: Component,
  { from, names, more }: Source,
  site: Site,
): Value<{ [name: string]: string }> {
  const own = given(authenticator, from)
  const extra = given(authenticator, more)
  const read = names.flatMap((name) => {
    const source = isDict(own) ? optionalText(own, name) : null
    return source === null ? [] : [[name, textValue(source, site)] as const]
  })
  const rest = isDict(extra) ? mapping(extra, site) : () => ({})
  return (scope) => ({ ...rest(scope), ...Object.fromEntries(read.map(([name, value]) => [name, value(scope)])) })
}
