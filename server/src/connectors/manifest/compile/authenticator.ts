/** Authenticators. OAuth is in oauth.ts. */
import { ConnectorError } from '../../contract.ts'
import type { AuthenticationPlan, SessionPlan } from '../../http/request-plan.ts'
import type { Injection } from '../../http/scope.ts'
import { type Component, component, given, isComponent, isDict, optionalText, text } from '../component.ts'
import { parseDuration } from '../dates/iso.ts'
import { Unsupported } from '../problems.ts'
import type { Environment } from './environment.ts'
import { optionalInjection } from './injection.ts'
import { compileJwt } from './jwt.ts'
import { keyOf } from './keys.ts'
import { compileOAuth } from './oauth.ts'
import { type Site, settingText, textValue } from './templates.ts'

const AUTHORIZATION: Injection = { into: 'header', path: ['Authorization'] }

export function compileAuthenticator(authenticator: Component, environment: Environment): AuthenticationPlan {
  const site: Site = { environment, owner: authenticator, known: 'config' }
  switch (authenticator.type) {
    case 'NoAuth':
      return { kind: 'none' }
    case 'BearerAuthenticator': {
      const token = textValue(text(authenticator, 'api_token'), site)
      return { kind: 'value', value: (scope) => `Bearer ${token(scope)}`, at: AUTHORIZATION }
    }
    case 'ApiKeyAuthenticator':
      return compileApiKey(authenticator, site)
    case 'BasicHttpAuthenticator': {
      const password = optionalText(authenticator, 'password')
      return {
        kind: 'basic',
        username: textValue(text(authenticator, 'username'), site),
        password: password === null ? () => '' : textValue(password, site),
      }
    }
    case 'OAuthAuthenticator':
      return compileOAuth(authenticator, environment)
    case 'JwtAuthenticator':
      return compileJwt(authenticator, environment)
    case 'SessionTokenAuthenticator':
      return compileSession(authenticator, environment)
    case 'SelectiveAuthenticator':
      return compileSelective(authenticator, environment)
    default:
      throw new Unsupported(`${authenticator.type} is not supported`)
  }
}

function compileApiKey(authenticator: Component, site: Site): AuthenticationPlan {
  const value = textValue(text(authenticator, 'api_token'), site)
  const option = given(authenticator, 'inject_into')
  if (isDict(option) && option.inject_into === 'cookie') {
    return { kind: 'value', value, at: { into: 'cookie', path: [settingText(text(option, 'field_name'), site)] } }
  }
  const at = optionalInjection(authenticator, 'inject_into', site.environment)
  if (at !== null) return { kind: 'value', value, at }
  const header = optionalText(authenticator, 'header')
  if (header === null) throw new Unsupported('ApiKeyAuthenticator has neither inject_into nor header')
  return { kind: 'value', value, at: { into: 'header', path: [settingText(header, site)] } }
}

/** The settings choose. While a manifest is checked, all of them must compile. */
function compileSelective(authenticator: Component, environment: Environment): AuthenticationPlan {
  const choices = given(authenticator, 'authenticators')
  const path = given(authenticator, 'authenticator_selection_path')
  if (!isDict(choices) || !Array.isArray(path)) throw new Unsupported('SelectiveAuthenticator has no authenticators')
  if (environment.checking) {
    const plans = Object.values(choices).map((choice) => {
      if (!isComponent(choice)) throw new Unsupported('SelectiveAuthenticator.authenticators holds no component')
      return compileAuthenticator(choice, environment)
    })
    return plans[0] ?? { kind: 'none' }
  }
  const chosen = path.reduce<unknown>(
    (value, key) => (isDict(value) ? value[String(key)] : undefined),
    environment.config,
  )
  const choice = typeof chosen === 'string' && Object.hasOwn(choices, chosen) ? choices[chosen] : undefined
  if (!isComponent(choice)) {
    const known = Object.keys(choices).join(', ')
    throw new ConnectorError('config', `the setting ${path.join('.')} is none of: ${known}`)
  }
  return compileAuthenticator(choice, environment)
}

function compileSession(authenticator: Component, environment: Environment): SessionPlan {
  const site: Site = { environment, owner: authenticator, known: 'config' }
  const path = given(authenticator, 'session_token_path')
  if (!Array.isArray(path)) throw new Unsupported('SessionTokenAuthenticator.session_token_path is not a list')
  const duration = optionalText(authenticator, 'expiration_duration')
  const lifetime = duration === null ? null : settingText(duration, site)
  const use = component(authenticator, 'request_authentication')
  return {
    kind: 'session',
    key: keyOf(authenticator),
    login: environment.request(component(authenticator, 'login_requester')),
    tokenPath: path.map((part) => settingText(String(part), site)),
    lifetimeMs: lifetime === null || environment.checking ? null : durationMs(lifetime),
    ...sessionUse(use, environment),
  }
}

function sessionUse(use: Component, environment: Environment): Pick<SessionPlan, 'at' | 'write'> {
  if (use.type === 'Bearer') return { at: AUTHORIZATION, write: (token) => `Bearer ${token}` }
  if (use.type !== 'ApiKey') throw new Unsupported(`${use.type} is not supported`)
  const at = optionalInjection(use, 'inject_into', environment)
  if (at === null) throw new Unsupported('ApiKey has no inject_into')
  const source = optionalText(use, 'api_token')
  if (source === null) return { at, write: (token) => token }
  const value = textValue(source, { environment, owner: use, known: 'session' })
  return { at, write: (token) => value(null, { session_token: token }) }
}

function durationMs(source: string): number {
  // Seconds, as some manifests give them.
  if (/^\d{1,9}$/.test(source)) return Number(source) * 1000
  const duration = parseDuration(source)
  if (duration === null) throw new ConnectorError('config', `${JSON.stringify(source)} is not an ISO 8601 duration`)
  return duration.delta.totalSeconds * 1000 + duration.months * 30 * 86_400_000
}
