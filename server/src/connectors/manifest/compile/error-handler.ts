/** Error handlers: which answers are retried, ignored or fail, and how long to wait. */
import { ConnectorError } from '../../contract.ts'
import type { Backoff, ErrorAction, ErrorFilter, ErrorPolicy } from '../../http/error-policy.ts'
import type { Scope } from '../../http/scope.ts'
import { type Component, components, given, optionalText, text } from '../component.ts'
import { Unsupported } from '../problems.ts'
import { boundedRegex } from '../template/regex.ts'
import type { Environment } from './environment.ts'
import { anyValue, condition, type Site, textValue } from './templates.ts'

const ACTIONS: Record<string, ErrorAction> = {
  SUCCESS: 'success',
  FAIL: 'fail',
  IGNORE: 'ignore',
  RETRY: 'retry',
  RATE_LIMITED: 'rate_limited',
  RESET_PAGINATION: 'reset_pages',
  REFRESH_TOKEN_THEN_RETRY: 'renew_token',
}

const KINDS: Record<string, ErrorFilter['kind']> = {
  config_error: 'config',
  system_error: 'source',
  transient_error: 'transient',
}

/** Answers that are retried where nothing else is said. */
const RETRIED = [408, 500, 502, 503, 504]

export function compileErrorHandler(handler: Component | null, environment: Environment): ErrorPolicy[] {
  if (handler === null) return []
  if (handler.type === 'DefaultErrorHandler') return [compileDefault(handler, environment)]
  if (handler.type !== 'CompositeErrorHandler') throw new Unsupported(`${handler.type} is not supported`)
  return compileComposite(handler, environment)
}

/**
 * In a composite a handler decides if it says success, retry or ignore, by its filters or by the defaults; otherwise the
 * next one is asked. Retries and waits are counted together.
 */
function compileComposite(handler: Component, environment: Environment): ErrorPolicy[] {
  const inner = components(handler, 'error_handlers').flatMap((part) => compileErrorHandler(part, environment))
  if (inner.length === 0) throw new Unsupported('CompositeErrorHandler has no error_handlers')
  const limits = {
    backoff: inner.flatMap(({ backoff }) => backoff),
    maxRetries: inner[0]!.maxRetries,
    maxTimeMs: Math.max(...inner.map(({ maxTimeMs }) => maxTimeMs)),
  }
  const undecided = (filter: ErrorFilter): boolean => filter.action === 'fail' || filter.action === 'rate_limited'
  const deciding = inner.map(({ filters }, at) => {
    if (at === inner.length - 1) return { ...limits, filters }
    const byDefault: ErrorFilter[] = [
      { when: (scope) => isSuccess(scope), action: 'success' },
      { statuses: RETRIED, action: 'retry' },
    ]
    return { ...limits, filters: [...filters.filter((filter) => !undecided(filter)), ...byDefault] }
  })
  const late = inner.slice(0, -1).flatMap(({ filters }) => filters.filter(undecided))
  return late.length === 0 ? deciding : [...deciding, { ...limits, filters: late }]
}

function isSuccess({ answer }: Scope): boolean {
  return answer !== null && answer.status < 400
}

function compileDefault(handler: Component, environment: Environment): ErrorPolicy {
  const site: Site = { environment, owner: handler, known: 'config' }
  return {
    filters: components(handler, 'response_filters').flatMap((filter) => compileFilter(filter, environment)),
    backoff: components(handler, 'backoff_strategies').map((strategy) => compileBackoff(strategy, environment)),
    maxRetries: configNumber(handler, 'max_retries', site) ?? 5,
    maxTimeMs: (configNumber(handler, 'max_time', site) ?? 600) * 1000,
  }
}

/** A number, or a template over the settings that gives one. While a manifest is checked, only its form is looked at. */
function configNumber(owner: Component, field: string, site: Site): number | null {
  const source = given(owner, field)
  if (source === undefined) return null
  if (typeof source === 'number') return source
  const value = anyValue(text(owner, field), site)
  if (site.environment.checking) return null
  const number = Number(value(null))
  if (!Number.isFinite(number)) throw new ConnectorError('config', `${owner.type}.${field} does not give a number`)
  return number
}

function compileFilter(filter: Component, environment: Environment): ErrorFilter[] {
  const site: Site = { environment, owner: filter, known: 'answer' }
  const name = optionalText(filter, 'action')
  // Without an action a filter changes nothing: the defaults apply.
  if (name === null) return []
  const action = ACTIONS[name]
  if (action === undefined) throw new Unsupported(`HttpResponseFilter.action ${name} is unknown`)
  const predicate = given(filter, 'predicate')
  const contains = optionalText(filter, 'error_message_contains')
  const statuses = statusCodes(filter)
  if (statuses === null && (predicate === undefined || predicate === '') && !contains) return []
  const message = optionalText(filter, 'error_message')
  const kind = optionalText(filter, 'failure_type')
  if (kind !== null && KINDS[kind] === undefined)
    throw new Unsupported(`HttpResponseFilter.failure_type ${kind} is unknown`)
  return [
    {
      action,
      ...(statuses !== null && { statuses }),
      ...(predicate !== undefined && predicate !== '' && { when: condition(predicate, site) }),
      ...(contains && { contains }),
      ...(message && { message: textValue(message, site) }),
      ...(kind !== null && { kind: KINDS[kind]! }),
    },
  ]
}

function statusCodes(filter: Component): number[] | null {
  const codes = given(filter, 'http_codes')
  if (codes === undefined) return null
  const list = Array.isArray(codes) ? codes : [codes]
  const numbers = list.map(Number)
  if (numbers.some((code) => !Number.isInteger(code)))
    throw new Unsupported('HttpResponseFilter.http_codes are not numbers')
  return numbers.length === 0 ? null : numbers
}

function compileBackoff(strategy: Component, environment: Environment): Backoff {
  const site: Site = { environment, owner: strategy, known: 'config' }
  if (strategy.type === 'ConstantBackoffStrategy' || strategy.type === 'ConstantBackoff') {
    const seconds = laterNumber(strategy, 'backoff_time_in_seconds', site)
    const jitter = laterNumber(strategy, 'jitter_range_in_seconds', site)
    return () => ((seconds() ?? 0) + (Math.random() * 2 - 1) * (jitter() ?? 0)) * 1000
  }
  if (strategy.type === 'ExponentialBackoffStrategy') {
    const factor = laterNumber(strategy, 'factor', site)
    return (_, attempt) => (factor() ?? 5) * 2 ** Math.min(attempt, 30) * 1000
  }
  if (strategy.type === 'WaitTimeFromHeader') return waitTime(strategy, site)
  if (strategy.type === 'WaitUntilTimeFromHeader') return waitUntil(strategy, site)
  throw new Unsupported(`${strategy.type} is not supported`)
}

/** A number that is read when it is needed, since it may depend on the settings. */
function laterNumber(owner: Component, field: string, site: Site): () => number | null {
  const source = optionalText(owner, field)
  if (source === null) return () => null
  const value = anyValue(source, site)
  return () => {
    const read = value(null)
    if (read === '' || read === null) return null
    const number = Number(read)
    if (!Number.isFinite(number)) throw new ConnectorError('config', `${owner.type}.${field} does not give a number`)
    return number
  }
}

function headerNumber(strategy: Component, site: Site): (scope: Scope) => number | null {
  const header = textValue(text(strategy, 'header'), site)
  const pattern = optionalText(strategy, 'regex')
  const regex = pattern === null ? null : textValue(pattern, site)
  if (pattern !== null && !site.environment.checking) boundedRegex(`^(?:${pattern})`)
  return (scope) => {
    const value = scope.answer?.headers[header(null).toLowerCase()]
    if (value === undefined) return null
    const found = regex === null ? value : boundedRegex(`^(?:${regex(null)})`).exec(value)?.[0]
    const number = found === undefined || found.trim() === '' ? Number.NaN : Number(found)
    return Number.isFinite(number) ? number : null
  }
}

function waitTime(strategy: Component, site: Site): Backoff {
  const read = headerNumber(strategy, site)
  const most = laterNumber(strategy, 'max_waiting_time_in_seconds', site)
  return (scope) => {
    const seconds = read(scope)
    return seconds === null ? null : capped(seconds, most()) * 1000
  }
}

function waitUntil(strategy: Component, site: Site): Backoff {
  const read = headerNumber(strategy, site)
  const least = laterNumber(strategy, 'min_wait', site)
  const most = laterNumber(strategy, 'max_waiting_time_in_seconds', site)
  return (scope) => {
    const until = read(scope)
    const floor = least()
    if (!until) return floor === null || floor === 0 ? null : capped(floor, most()) * 1000
    const seconds = until - Date.now() / 1000
    if (floor) return capped(Math.max(seconds, floor), most()) * 1000
    return seconds < 0 ? null : capped(seconds, most()) * 1000
  }
}

function capped(seconds: number, most: number | null): number {
  if (most === null || seconds === 0 || seconds < most) return seconds
  throw new ConnectorError(
    'rate_limited',
    `the API asks to wait ${Math.ceil(seconds)} s, the manifest allows less than ${most} s`,
  )
}
