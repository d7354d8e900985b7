/** The paginators of dlt. */
import type { Json } from '../../json/json.ts'
import { ConnectorError } from '../contract.ts'
import { offsets, type Paginator, pageNumbers, tokens } from '../http/paginator.ts'
import type { Injection, Scope } from '../http/scope.ts'
import { hintAtKnown } from '../settings/settings.ts'
import { autoPaginator } from './auto-paginator.ts'
import { fault } from './fault.ts'
import { parseValuePath } from './json-path.ts'
import type { PaginatorSettings } from './settings.ts'

/** Which settings a type has. */
const FIELDS: Record<string, readonly string[]> = {
  json_link: ['next_url_path'],
  json_response: ['next_url_path'],
  header_link: ['links_next_key'],
  header_cursor: ['cursor_key', 'cursor_param'],
  cursor: ['cursor_path', 'cursor_param', 'cursor_body_path', 'stop_after_empty_page', 'has_more_path'],
  offset: [
    'limit',
    'offset',
    'offset_param',
    'offset_body_path',
    'limit_param',
    'limit_body_path',
    'total_path',
    'maximum_offset',
    'stop_after_empty_page',
    'has_more_path',
  ],
  page_number: [
    'base_page',
    'page',
    'page_param',
    'page_body_path',
    'total_path',
    'maximum_page',
    'stop_after_empty_page',
    'has_more_path',
  ],
  single_page: [],
  auto: [],
}

const URL_TOKEN = [{ into: 'url' }] as const

/** Null: one page only. */
export function compilePaginator(given: string | PaginatorSettings | null | undefined, at: string): Paginator | null {
  const settings = typeof given === 'string' ? { type: given } : (given ?? { type: 'auto' })
  const { type } = settings
  const known = Object.hasOwn(FIELDS, type) ? FIELDS[type]! : null
  if (known === null) {
    const types = Object.keys(FIELDS).filter((name) => name !== 'json_response')
    throw fault(
      typeof given === 'string' ? at : `${at}.type`,
      `'${type.slice(0, 60)}' is not a paginator${hintAtKnown(type, types).replace('the known fields are', 'there are')}`,
    )
  }
  for (const name of Object.keys(settings))
    if (name !== 'type' && !known.includes(name))
      throw fault(`${at}.${name}`, `is not a setting of the paginator ${type}${hintAtKnown(name, known)}`)
  return create(settings, at)
}

function create(settings: PaginatorSettings, at: string): Paginator | null {
  switch (settings.type) {
    case 'single_page':
      return null
    case 'auto':
      return autoPaginator()
    case 'header_link': {
      const relation = settings.links_next_key ?? 'next'
      return tokens({ value: ({ answer }) => answer!.links[relation]?.url ?? null, inject: URL_TOKEN, size: null })
    }
    case 'header_cursor': {
      const header = (settings.cursor_key ?? 'next').toLowerCase()
      return tokens({
        value: ({ answer }) => answer!.headers[header] ?? null,
        inject: [param(settings.cursor_param ?? 'cursor')],
        size: null,
      })
    }
    case 'cursor':
      return cursorPaginator(settings, at)
    case 'offset':
      return offsetPaginator(settings, at)
    case 'page_number':
      return pageNumberPaginator(settings, at)
    default: {
      const path = parseValuePath(settings.next_url_path ?? 'next', `${at}.next_url_path`)
      return tokens({ value: ({ answer }) => answer!.find(path) ?? null, inject: URL_TOKEN, size: null })
    }
  }
}

function cursorPaginator(settings: PaginatorSettings, at: string): Paginator {
  const path = parseValuePath(settings.cursor_path ?? 'cursors.next', `${at}.cursor_path`)
  const stop = stopRule(settings, at, false)
  return tokens({
    value: ({ answer }) => answer!.find(path) ?? null,
    stop,
    inject: [place(settings, at, 'cursor_param', 'cursor_body_path', 'cursor')],
    size: null,
  })
}

function offsetPaginator(settings: PaginatorSettings, at: string): Paginator {
  const { limit, offset, maximum_offset } = settings
  if (limit === undefined) throw fault(`${at}.limit`, 'is required: the number of records in a page')
  requireEnd(settings, maximum_offset, at, 'maximum_offset')
  const start = offset ?? 0
  const ended = stopRule(settings, at, true)
  const total = totalRule(settings, at)
  return offsets({
    start,
    step: limit,
    firstInjected: true,
    pageSize: () => null,
    stopAfterEmpty: settings.stop_after_empty_page ?? true,
    stop: (scope) => {
      const next = (typeof scope.token === 'number' ? scope.token : start) + limit
      const most = total(scope)
      return (most !== null && next >= most) || (isNumber(maximum_offset) && next >= maximum_offset) || ended(scope)
    },
    inject: [place(settings, at, 'offset_param', 'offset_body_path', 'offset')],
    size: { value: () => limit, inject: place(settings, at, 'limit_param', 'limit_body_path', 'limit') },
  })
}

function pageNumberPaginator(settings: PaginatorSettings, at: string): Paginator {
  const { base_page, page, maximum_page } = settings
  requireEnd(settings, maximum_page, at, 'maximum_page')
  const base = base_page ?? 0
  const start = page ?? base
  const ended = stopRule(settings, at, true)
  const total = totalRule(settings, at)
  return pageNumbers({
    start,
    firstInjected: true,
    pageSize: () => null,
    stopAfterEmpty: settings.stop_after_empty_page ?? true,
    stop: (scope) => {
      const next = (typeof scope.token === 'number' ? scope.token : start) + 1
      const most = total(scope)
      return (most !== null && next >= most + base) || (isNumber(maximum_page) && next >= maximum_page) || ended(scope)
    },
    inject: [place(settings, at, 'page_param', 'page_body_path', 'page')],
    size: null,
  })
}

const isNumber = (value: unknown): value is number => typeof value === 'number'

/** Something must end the pages. */
function requireEnd(settings: PaginatorSettings, maximum: number | null | undefined, at: string, name: string): void {
  const { total_path, has_more_path, stop_after_empty_page } = settings
  if (total_path !== null || isNumber(maximum) || has_more_path || stop_after_empty_page !== false) return
  throw fault(
    at,
    `nothing would end the pages: give total_path, ${name} or has_more_path, or set stop_after_empty_page to true`,
  )
}

/** The total that the body states. A path that was given must be there; the default one may be missing. */
function totalRule({ total_path }: PaginatorSettings, at: string): (scope: Scope) => number | null {
  if (total_path === null) return () => null
  const path = parseValuePath(total_path ?? 'total', `${at}.total_path`)
  return ({ answer }) => {
    const found = answer!.find(path)
    if (found === undefined && total_path === undefined) return null
    const total =
      typeof found === 'number' || (typeof found === 'string' && found.trim() !== '') ? Number(found) : Number.NaN
    if (Number.isFinite(total)) return total
    if (total_path === undefined) return null
    throw new ConnectorError('source', `The answer has no number at ${total_path} (${at}.total_path).`)
  }
}

function stopRule(settings: PaginatorSettings, at: string, emptyStops: boolean): (scope: Scope) => boolean {
  const { has_more_path } = settings
  const stopsEmpty = settings.stop_after_empty_page ?? emptyStops
  const path = has_more_path ? parseValuePath(has_more_path, `${at}.has_more_path`) : null
  return (scope) => {
    if (stopsEmpty && scope.pageRecords === 0) return true
    if (path === null) return false
    const more = readBoolean(scope.answer!.find(path))
    if (more === null)
      throw new ConnectorError('source', `The answer has no true or false at ${has_more_path} (${at}.has_more_path).`)
    return !more
  }
}

function readBoolean(value: Json | undefined): boolean | null {
  if (typeof value === 'boolean') return value
  if (typeof value !== 'string') return null
  const text = value.toLowerCase()
  if (['true', 't', 'yes', 'y', '1', 'on'].includes(text)) return true
  return ['false', 'f', 'no', 'n', '0', 'off'].includes(text) ? false : null
}

const param = (name: string): Injection => ({ into: 'param', path: [name] })

type Names = 'cursor_param' | 'offset_param' | 'limit_param' | 'page_param'
type BodyNames = 'cursor_body_path' | 'offset_body_path' | 'limit_body_path' | 'page_body_path'

function place(settings: PaginatorSettings, at: string, name: Names, body: BodyNames, usual: string): Injection {
  const inParam = settings[name]
  const inBody = settings[body]
  if (inParam !== undefined && inBody !== undefined)
    throw fault(`${at}.${body}`, `cannot be given together with ${name}`)
  return inBody === undefined
    ? param(inParam ?? usual)
    : { into: 'json', path: parseValuePath(inBody, `${at}.${body}`) }
}
