/** HTTPAPIBudget and ConcurrencyLevel. */

import { ConnectorError } from '../../contract.ts'
import type { BudgetPlan, RatePolicy } from '../../http/plan.ts'
import type { OutgoingRequest } from '../../http/request-plan.ts'
import { trimSlashes } from '../../http/trim-slashes.ts'
import { type Component, type Dict, given, isDict, optionalText, text } from '../component.ts'
import { parseDuration } from '../dates/iso.ts'
import { Unsupported } from '../problems.ts'
import { boundedRegex } from '../template/regex.ts'
import type { Environment } from './environment.ts'
import { anyValue, type Site } from './templates.ts'

export function compileBudget(manifest: Component, environment: Environment): BudgetPlan | null {
  const budget = given(manifest, 'api_budget')
  if (!isDict(budget)) return null
  const site: Site = { environment, owner: budget, known: 'config' }
  const policies = given(budget, 'policies')
  if (!Array.isArray(policies)) throw new Unsupported('HTTPAPIBudget.policies is not a list')
  const statuses = given(budget, 'status_codes_for_ratelimit_hit')
  return {
    policies: policies.map((policy) => compilePolicy(isDict(policy) ? policy : {}, site)),
    remainingHeader: optionalText(budget, 'ratelimit_remaining_header') ?? 'ratelimit-remaining',
    resetHeader: optionalText(budget, 'ratelimit_reset_header') ?? 'ratelimit-reset',
    statuses: Array.isArray(statuses) ? statuses.map(Number) : [429],
  }
}

function compilePolicy(policy: Dict, site: Site): RatePolicy {
  const matchers = given(policy, 'matchers')
  const matches = (Array.isArray(matchers) ? matchers : []).map((matcher) =>
    compileMatcher(isDict(matcher) ? matcher : {}),
  )
  const weigh = (request: OutgoingRequest): number | null => {
    if (matches.length === 0) return 1
    for (const match of matches) {
      const weight = match(request)
      if (weight !== null) return weight
    }
    return null
  }
  if (policy.type === 'UnlimitedCallRatePolicy') return { weigh, limit: { kind: 'unlimited' } }
  if (policy.type === 'FixedWindowCallRatePolicy') {
    const limit = {
      kind: 'fixed_window' as const,
      calls: amount(policy, 'call_limit', site),
      periodMs: period(policy, 'period', site),
    }
    return { weigh, limit }
  }
  if (policy.type !== 'MovingWindowCallRatePolicy')
    throw new Unsupported(`the policy ${String(policy.type)} is not supported`)
  const rates = given(policy, 'rates')
  if (!Array.isArray(rates)) throw new Unsupported('MovingWindowCallRatePolicy.rates is not a list')
  return {
    weigh,
    limit: {
      kind: 'moving_window',
      rates: rates.map((rate) => {
        const given = isDict(rate) ? rate : {}
        return { calls: amount(given, 'limit', site), periodMs: period(given, 'interval', site) }
      }),
    },
  }
}

/** While a manifest is checked, templates over the settings are compiled but not evaluated. */
function amount(owner: Dict, field: string, site: Site): number {
  const source = given(owner, field)
  if (typeof source === 'number') return source
  const value = anyValue(text(owner, field), site)
  if (site.environment.checking) return 1
  const number = Number(value(null))
  if (!(number > 0)) throw new ConnectorError('config', `${field} of the API budget does not give a positive number`)
  return number
}

function period(owner: Dict, field: string, site: Site): number {
  const value = anyValue(text(owner, field), site)
  if (site.environment.checking && text(owner, field).includes('{{')) return 1000
  const duration = parseDuration(String(value(null)))
  if (duration === null) throw new Unsupported(`${field} of the API budget is not an ISO 8601 duration`)
  return duration.delta.totalSeconds * 1000 + duration.months * 30 * 86_400_000
}

function compileMatcher(matcher: Dict): (request: OutgoingRequest) => number | null {
  const method = optionalText(matcher, 'method')?.toUpperCase() ?? null
  const given = optionalText(matcher, 'url_base')
  const base = given === null ? null : trimSlashes(given)
  const pattern = optionalText(matcher, 'url_path_pattern')
  const path = pattern === null ? null : boundedRegex(pattern)
  const params = isDict(matcher.params) ? Object.entries(matcher.params) : []
  const headers = isDict(matcher.headers) ? Object.entries(matcher.headers) : []
  const weight = typeof matcher.weight === 'number' ? matcher.weight : 1
  return (request) => {
    if (method !== null && request.method !== method) return null
    if (base !== null && request.url.origin !== base && !request.url.href.startsWith(`${base}/`)) return null
    if (path !== null && path.exec(request.url.pathname) === null) return null
    if (params.some(([name, value]) => request.url.searchParams.get(name) !== String(value))) return null
    return headers.some(([name, value]) => headerOf(request, name) !== String(value)) ? null : weight
  }
}

function headerOf({ headers }: OutgoingRequest, name: string): string | undefined {
  return Object.entries(headers).find(([key]) => key.toLowerCase() === name.toLowerCase())?.[1]
}

/** How many requests may be under way at once. */
export function compileConcurrency(manifest: Component, environment: Environment): number | undefined {
  const level = given(manifest, 'concurrency_level')
  if (!isDict(level)) return undefined
  const site: Site = { environment, owner: level, known: 'config' }
  const usual = given(level, 'default_concurrency')
  if (usual === undefined) throw new Unsupported('ConcurrencyLevel has no default_concurrency')
  const wanted = typeof usual === 'number' ? () => usual : anyValue(text(level, 'default_concurrency'), site)
  if (environment.checking) return undefined
  const number = Number(wanted(null))
  if (!Number.isInteger(number) || number < 1)
    throw new ConnectorError('config', 'the concurrency of the manifest is not a positive number')
  const most = given(level, 'max_concurrency')
  return typeof most === 'number' ? Math.min(number, most) : number
}
