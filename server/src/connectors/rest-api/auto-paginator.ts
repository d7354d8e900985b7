/**
 * The paginator that an answer suggests, by dlt's rules: a `next` relation in the Link header, an address under a key that
 * begins with `next`, a number of pages, a cursor under such a key; otherwise there is one page.
 *
 * The token tells by itself where it goes, because a read that is resumed has nothing but the token.
 */
import type { Json } from '../../json/json.ts'
import type { Paginator, TokenPlaces } from '../http/paginator.ts'
import { isFields } from '../http/paths.ts'
import type { Scope } from '../http/scope.ts'

const DEEPEST = 8
const LINK_KEYS = ['href', 'url']
const PAGE_COUNTS = ['total_pages', 'pages', 'totalpages']
const PAGE_KEYS = ['page', 'current_page', 'currentpage', 'page_number']

export function autoPaginator(): Paginator {
  return { first: () => null, next: findNext, inject: placesOf, size: null }
}

const isLink = (value: Json): value is string => typeof value === 'string' && /^(https?:\/\/|\/)/.test(value)

function placesOf(token: Json): TokenPlaces {
  if (isLink(token)) return [{ into: 'url' }]
  return [{ into: 'param', path: [typeof token === 'number' ? 'page' : 'cursor'] }]
}

function findNext({ answer, token, pageRecords }: Scope): Json {
  const link = answer!.links.next?.url
  if (link !== undefined) return link
  // Pages whose first one had a link, or a number, go on the same way.
  const { body } = answer!
  const next = typeof token === 'number' ? null : findReference(body, DEEPEST)
  if (next !== null && isLink(next)) return next
  const pages = isLink(token) ? null : findNumber(body, PAGE_COUNTS, DEEPEST)
  if (pages !== null) {
    const current = typeof token === 'number' ? token : (findNumber(body, PAGE_KEYS, DEEPEST) ?? 1)
    const last = current === 0 ? pages - 1 : pages
    return pageRecords > 0 && current < last ? current + 1 : null
  }
  return next
}

function findReference(value: Json, depth: number): Json {
  if (!isFields(value) || depth === 0) return null
  for (const [key, inner] of Object.entries(value)) {
    if (key.toLowerCase().startsWith('next')) {
      if ((typeof inner === 'string' && inner !== '') || typeof inner === 'number')
        return typeof inner === 'number' ? String(inner) : inner
      if (isFields(inner)) {
        const found = LINK_KEYS.map((name) => inner[name]).find((each) => typeof each === 'string')
        if (found !== undefined) return found
      }
    }
    const found = findReference(inner, depth - 1)
    if (found !== null) return found
  }
  return null
}

function findNumber(value: Json, names: readonly string[], depth: number): number | null {
  if (!isFields(value) || depth === 0) return null
  for (const [key, inner] of Object.entries(value)) {
    if (names.includes(key.toLowerCase()) && (typeof inner === 'number' || typeof inner === 'string')) {
      const number = inner === '' ? Number.NaN : Number(inner)
      if (Number.isSafeInteger(number)) return number
    }
    const found = findNumber(inner, names, depth - 1)
    if (found !== null) return found
  }
  return null
}
