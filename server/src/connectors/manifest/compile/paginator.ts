/** DefaultPaginator and its strategies. */

import type { Json } from '../../../json/json.ts'
import { ConnectorError } from '../../contract.ts'
import { offsets, type Paginator, pageNumbers, type TokenPlaces, tokens } from '../../http/paginator.ts'
import type { Injection, Value } from '../../http/scope.ts'
import { type Component, component, flag, given, isDict, text, wholeNumber } from '../component.ts'
import { Unsupported } from '../problems.ts'
import type { Environment } from './environment.ts'
import { optionalInjection } from './injection.ts'
import { type CompiledRequest, injectable, joinUrl } from './requester.ts'
import { anyValue, condition, presentValue, type Site } from './templates.ts'

export function compilePaginator(
  paginator: Component | null,
  request: CompiledRequest,
  environment: Environment,
): Paginator | null {
  if (paginator === null || paginator.type === 'NoPagination') return null
  if (paginator.type !== 'DefaultPaginator') throw new Unsupported(`${paginator.type} is not supported`)
  const strategy = component(paginator, 'pagination_strategy')
  const pageSize = compilePageSize(strategy, environment)
  const sizeAt = injectable(request.request, optionalInjection(paginator, 'page_size_option', environment))
  if (sizeAt !== null && pageSize === null) throw new Unsupported('DefaultPaginator.page_size_option needs a page_size')
  const size = sizeAt === null || pageSize === null ? null : { value: pageSize, inject: sizeAt }
  const inject = compileTokenPlaces(paginator, request, environment)
  if (strategy.type === 'CursorPagination')
    return compileCursor(strategy, { inject, size, base: request.base, environment })
  const counted = {
    firstInjected: flag(strategy, 'inject_on_first_request'),
    pageSize: pageSize ?? (() => null),
    // Counted tokens never are an address.
    inject: inject.filter((place): place is Injection => place.into !== 'url'),
    size,
  }
  if (strategy.type === 'PageIncrement') {
    return pageNumbers({ ...counted, start: wholeNumber(strategy, 'start_from_page', 0) })
  }
  if (strategy.type === 'OffsetIncrement') return offsets({ ...counted, start: 0, step: null })
  throw new Unsupported(`${strategy.type} is not supported`)
}

function compileTokenPlaces(paginator: Component, request: CompiledRequest, environment: Environment): TokenPlaces {
  const option = given(paginator, 'page_token_option')
  if (option === undefined) return []
  if (isDict(option) && option.type === 'RequestPath') return [{ into: 'url' }]
  const at = injectable(request.request, optionalInjection(paginator, 'page_token_option', environment))
  return at === null ? [] : [at]
}

/** A number, or a template over the settings that gives one. */
function compilePageSize(strategy: Component, environment: Environment): Value<number> | null {
  const source = given(strategy, 'page_size')
  if (source === undefined || source === '') return null
  if (typeof source === 'number') return () => source
  // An offset's page size may be read from the answer; what the request names comes from the settings.
  const known = strategy.type === 'OffsetIncrement' ? 'answer' : 'config'
  const value = anyValue(text(strategy, 'page_size'), { environment, owner: strategy, known })
  return (scope) => {
    const size = Number(value(scope))
    if (!Number.isInteger(size))
      throw new ConnectorError('config', `${strategy.type}.page_size does not give a whole number`)
    return size
  }
}

interface CursorPlan {
  inject: TokenPlaces
  size: Paginator['size']
  base: Value<string>
  environment: Environment
}

function compileCursor(strategy: Component, { inject, size, base, environment }: CursorPlan): Paginator {
  const site: Site = { environment, owner: strategy, known: 'page' }
  // An answer without the value has no next page.
  const cursor = presentValue(text(strategy, 'cursor_value'), site)
  const stop = given(strategy, 'stop_condition')
  const asUrl = inject.some((place) => place.into === 'url')
  return tokens({
    inject,
    size,
    value: (scope) => token(cursor(scope), asUrl ? base(scope) : null),
    ...(stop !== undefined && stop !== '' && { stop: condition(stop, site) }),
  })
}

/** What Python takes as false ends the pages. An address is completed with the base of the request's own. */
function token(value: Json, base: string | null): Json {
  if (value === null || value === false || value === 0 || value === '') return null
  if (Array.isArray(value) ? value.length === 0 : isDict(value) && Object.keys(value).length === 0) return null
  if (base === null) return value
  const address = String(value)
  // An address that begins with a slash is relative to the host, which the request's own address tells as well.
  return address.startsWith('/') ? address : joinUrl(base, address)
}
