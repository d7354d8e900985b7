/** OAuthAuthenticator: an access token from a refresh token, client credentials or a signed assertion. */
import { signJwt } from '../../authentication/sign-jwt.ts'
import type { JwtPlan, OAuthPlan } from '../../http/request-plan.ts'
import type { Fields, Scope, Value } from '../../http/scope.ts'
import { type Component, given, isComponent, isDict, optionalText, text } from '../component.ts'
import { timeFormat } from '../dates/format.ts'
import { parseIso } from '../dates/iso.ts'
import { Unsupported } from '../problems.ts'
import type { Environment } from './environment.ts'
import { compileJwt } from './jwt.ts'
import { keyOf } from './keys.ts'
import { condition, mapping, type Site, settingText, textValue } from './templates.ts'
import { compileUpdater, type Updater } from './token-updater.ts'

export function compileOAuth(authenticator: Component, environment: Environment): OAuthPlan {
  const site: Site = { environment, owner: authenticator, known: 'config' }
  const name = (field: string, usual: string): Value<string> =>
    textValue(optionalText(authenticator, field) ?? usual, site)
  const nameNow = (field: string, usual: string): string =>
    settingText(optionalText(authenticator, field) ?? usual, site)
  const refreshTokenName = name('refresh_token_name', 'refresh_token')
  const updater = compileUpdater(authenticator, environment)
  const headers = given(authenticator, 'refresh_request_headers')
  return {
    kind: 'oauth',
    key: keyOf(authenticator),
    tokenUrl: textValue(text(authenticator, 'token_refresh_endpoint'), site),
    form: compileGrant(authenticator, site, { refreshTokenName, name, updater }),
    headers: isDict(headers) ? mapping(headers, site) : () => ({}),
    send: given(authenticator, 'send_refresh_request_as_query_params') === true ? 'params' : 'form',
    refreshTokenField:
      optionalText(authenticator, 'refresh_token') === null && updater === null
        ? null
        : nameNow('refresh_token_name', 'refresh_token'),
    accessTokenPath: [nameNow('access_token_name', 'access_token')],
    expiresInPath: [nameNow('expires_in_name', 'expires_in')],
    ...expiry(authenticator),
    ...(updater === null
      ? { refreshTokenPath: null, ...initialToken(authenticator, site) }
      : { refreshTokenPath: [updater.name], initial: updater.initial, isUsedUp: updater.isUsedUp }),
    ...(updater !== null && updater.stored !== null && { stored: updater.stored }),
  }
}

interface FormNames {
  updater: Updater | null
  refreshTokenName: Value<string>
  name(field: string, usual: string): Value<string>
}

/** Either the usual form, or an assertion that is signed here (RFC 7523). */
function compileGrant(authenticator: Component, site: Site, names: FormNames): Value<Fields> {
  const asserted = given(authenticator, 'use_profile_assertion') ?? false
  if (asserted === false) return compileForm(authenticator, site, names)
  const usesAssertion = condition(asserted, site)
  const assertion = given(authenticator, 'profile_assertion')
  if (!isComponent(assertion) || assertion.type !== 'JwtAuthenticator') {
    throw new Unsupported('OAuthAuthenticator.profile_assertion is not a JwtAuthenticator')
  }
  const jwt = compileJwt(assertion, site.environment)
  const form = compileForm(authenticator, site, names)
  const grantName = names.name('grant_type_name', 'grant_type')
  return (scope) => {
    if (!usesAssertion(scope)) return form(scope)
    return { [grantName(scope)]: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion: signedToken(jwt, scope) }
  }
}

function signedToken(jwt: JwtPlan, scope: Scope): string {
  const now = Math.floor(Date.now() / 1000)
  const times = { iat: now, nbf: now, exp: now + jwt.lifetimeMs / 1000 }
  return signJwt({
    algorithm: jwt.algorithm,
    secret: jwt.secret(scope),
    passphrase: jwt.passphrase === null ? null : jwt.passphrase(scope),
    headers: jwt.headers(scope),
    payload: { ...jwt.payload(scope), ...times },
  })
}

function compileForm(
  authenticator: Component,
  site: Site,
  { refreshTokenName, name, updater }: FormNames,
): Value<Fields> {
  const grant = name('grant_type', 'refresh_token')
  const grantName = name('grant_type_name', 'grant_type')
  const pairs: Array<[Value<string>, Value<string>]> = [[grantName, grant]]
  const add = (key: Value<string>, field: string): void => {
    const source = optionalText(authenticator, field)
    if (source !== null) pairs.push([key, textValue(source, site)])
  }
  if (!authorizesByHeader(authenticator)) {
    add(name('client_id_name', 'client_id'), 'client_id')
    add(name('client_secret_name', 'client_secret'), 'client_secret')
  }
  const kept = updater?.token() ?? null
  if (kept === null) add(refreshTokenName, 'refresh_token')
  else pairs.push([refreshTokenName, () => kept])
  const scopes = given(authenticator, 'scopes')
  const body = given(authenticator, 'refresh_request_body')
  const more = isDict(body) ? mapping(body, site) : () => ({})
  return (scope) => {
    const form: Fields = Object.fromEntries(pairs.map(([key, value]) => [key(scope), value(scope)]))
    if (Array.isArray(scopes) && scopes.length > 0) form.scopes = scopes
    // What the body gives besides the standard fields; those of the standard win.
    return { ...more(scope), ...form }
  }
}

/** Client credentials in an Authorization header are not sent in the form as well. */
function authorizesByHeader(authenticator: Component): boolean {
  const headers = given(authenticator, 'refresh_request_headers')
  return isDict(headers) && Object.keys(headers).some((key) => key.toLowerCase() === 'authorization')
}

function expiry(authenticator: Component): Pick<OAuthPlan, 'readExpiry'> {
  const updater = given(authenticator, 'refresh_token_updater')
  const source =
    optionalText(authenticator, 'token_expiry_date_format') ??
    (isDict(updater) ? optionalText(updater, 'token_expiry_date_format') : null)
  if (source === null) return {}
  const format = timeFormat(source)
  return {
    readExpiry: (value) => {
      const time = format.parse(String(value))
      return time === null ? null : time.seconds * 1000
    },
  }
}

/** An access token in the settings is used until it expires. */
function initialToken(authenticator: Component, site: Site): Pick<OAuthPlan, 'initial'> {
  const token = optionalText(authenticator, 'access_token_value')
  const until = optionalText(authenticator, 'token_expiry_date')
  if (token === null || until === null) return {}
  const [readToken, readUntil] = [textValue(token, site), textValue(until, site)]
  return {
    initial: (scope) => {
      const [value, text] = [readToken(scope), readUntil(scope)]
      const time = parseIso(text) ?? timeFormat('%s').parse(text)
      return value === '' || time === null ? null : { token: value, until: time.seconds * 1000 }
    },
  }
}
