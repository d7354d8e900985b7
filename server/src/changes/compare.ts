/** What differs between a stored object and the desired one, field by field. Secrets are never shown. */
import { isDeepStrictEqual } from 'node:util'
import { maskAddresses } from '../connections/masks.ts'
import { MASK } from '../connectors/settings/secrets.ts'
import { isObject } from '../connectors/settings/settings.ts'
import type { Json } from '../json/json.ts'

export interface ChangedField {
  /** Such as config.sync.cursor_field. */
  path: string
  /** Null for a secret, and where there was none. */
  before: Json
  after: Json
  secret: boolean
}

/** A value, and the same as a reader without write permission sees it. */
export interface Masked {
  value: unknown
  shown: unknown
}

const LONGEST = 500

/**
 * A mask in the desired object keeps what is stored there. If `tells` is false, a secret that is sent counts as changed even
 * if it is the stored one: the answer would tell whether a guess is right.
 */
export function findChanged(path: string, before: Masked, after: Masked, tells: boolean): ChangedField[] {
  const hidden = before.shown === MASK || after.shown === MASK
  if (after.value === MASK && before.value !== undefined) return []
  if (hidden) {
    if (tells && isSame(before.value, after.value)) return []
    return [{ path, before: null, after: null, secret: true }]
  }
  if (isObject(before.value) && isObject(after.value)) {
    const names = new Set([...Object.keys(before.value), ...Object.keys(after.value)])
    return [...names]
      .sort()
      .flatMap((name) => findChanged(`${path}.${name}`, inside(before, name), inside(after, name), tells))
  }
  if (Array.isArray(before.value) && Array.isArray(after.value) && before.value.length === after.value.length)
    return before.value.flatMap((_, index) =>
      findChanged(`${path}[${index}]`, inside(before, index), inside(after, index), tells),
    )
  if (isSame(before.value, after.value) && (tells || !hasMask(after.shown))) return []
  return [{ path, before: show(before.shown), after: show(after.shown), secret: false }]
}

function inside({ value, shown }: Masked, name: string | number): Masked {
  const part = (whole: unknown) =>
    typeof whole === 'object' && whole !== null && Object.hasOwn(whole, name)
      ? (whole as Record<string | number, unknown>)[name]
      : undefined
  return { value: part(value), shown: shown === MASK ? MASK : part(shown) }
}

const isSame = (a: unknown, b: unknown): boolean => isDeepStrictEqual(plain(a), plain(b))
/** Rows come back without prototypes in some places. */
const plain = (value: unknown): unknown => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)))

const hasMask = (value: unknown): boolean =>
  value === MASK || (typeof value === 'object' && value !== null && Object.values(value).some(hasMask))

/** Addresses without what may be a secret in them. */
function show(given: unknown): Json {
  if (given === undefined) return null
  const value = maskAddresses(given)
  if (typeof value === 'string') return shorten(value)
  const text = JSON.stringify(value)
  return text.length > LONGEST ? shorten(text) : (value as Json)
}

const shorten = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text)
