/** Jinja's filters that manifests use, and Airbyte's own. Filters over lists are in list-filters.ts. */
import { createHash, createHmac, getHashes } from 'node:crypto'
import { bind, itemsOf, lengthOf, numberArgument, textArgument } from './arguments.ts'
import { countItems, text } from './limits.ts'
import { LIST_FILTERS, reader } from './list-filters.ts'
import { quote } from './macros.ts'
import { defined } from './operators.ts'
import { percentFormat } from './percent-format.ts'
import { boundedRegex } from './regex.ts'
import {
  Float,
  float,
  getKey,
  isDict,
  isFloat,
  isNumber,
  isRaw,
  type Named,
  numberOf,
  orUndefined,
  TemplateError,
  Tuple,
  toText,
  Undefined,
  type Value,
  WrongType,
  wholeNumber,
} from './values.ts'

export type Filter = (value: Value, args: Value[], named: Named) => Value

const HASHES = ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'].filter((name) => getHashes().includes(name))

const FILTERS: Record<string, Filter> = {
  ...LIST_FILTERS,
  abs: (value) => {
    const number = numberArgument(value, 'abs')
    return isFloat(value) ? float(Math.abs(number)) : Math.abs(number)
  },
  attr: (value, [name]) =>
    isDict(value) && typeof name === 'string' ? orUndefined(getKey(value, name), name) : new Undefined('attr'),
  base64encode: (value) => text(Buffer.from(textArgument(value, 'base64encode'), 'utf8').toString('base64')),
  base64decode: (value) => text(Buffer.from(textArgument(value, 'base64decode'), 'base64').toString('utf8')),
  // Airbyte's filter of this name encodes.
  base64binascii_decode: (value) => text(Buffer.from(textArgument(value, 'base64'), 'utf8').toString('base64')),
  capitalize: (value) => capitalize(toText(value)),
  count: (value) => lengthOf(value),
  d: defaultFilter,
  default: defaultFilter,
  e: (value) => escapeHtml(toText(value)),
  escape: (value) => escapeHtml(toText(value)),
  float: toFloat,
  format: (value, args) => text(percentFormat(toText(value), Tuple.from(args))),
  hash: hashFilter,
  hmac: hmacFilter,
  int: toInt,
  length: (value) => lengthOf(value),
  lower: (value) => toText(value).toLowerCase(),
  regex_replace: (value, [pattern, replacement]) =>
    text(
      boundedRegex(textArgument(pattern, 'regex')).replace(
        textArgument(value, 'value'),
        textArgument(replacement, 'replacement'),
      ),
    ),
  regex_search: (value, [pattern]) =>
    boundedRegex(textArgument(pattern, 'regex')).exec(textArgument(value, 'value'))?.[1] ?? '',
  map: mapFilter,
  replace: replaceFilter,
  round: roundFilter,
  safe: (value) => value,
  // Airbyte's filter of this name: other values become JSON that is then read as a string literal.
  string: (value) => (typeof value === 'string' ? value : text(`"""${toJsonText(value)}"""`)),
  title: (value) => toText(value).replace(/[^\s\-([{<]+/g, capitalize),
  tojson: (value, args, named) => {
    const [indent] = bind('tojson', ['indent'], args, named)
    return text(htmlSafeJson(toJsonText(value, true, indent)))
  },
  trim: (value, [chars]) => stripText(toText(value), chars === undefined ? null : toText(chars), 'both'),
  upper: (value) => toText(value).toUpperCase(),
  urlencode: urlEncode,
  wordcount: (value) => toText(value).match(/\w+/g)?.length ?? 0,
}

export function findFilter(name: string): Filter | undefined {
  return Object.hasOwn(FILTERS, name) ? FILTERS[name] : undefined
}

function capitalize(value: string): string {
  return value.slice(0, 1).toUpperCase() + value.slice(1).toLowerCase()
}

function defaultFilter(value: Value, args: Value[], named: Named): Value {
  const [fallback = '', boolean = false] = bind('default', ['default_value', 'boolean'], args, named)
  if (value instanceof Undefined) return fallback
  const empty =
    boolean !== false && boolean !== null && (value === null || value === false || value === 0 || value === '')
  const emptyList =
    boolean === true && ((Array.isArray(value) && value.length === 0) || (isDict(value) && lengthOf(value) === 0))
  return empty || emptyList ? fallback : value
}

function escapeHtml(value: string): string {
  const marks: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', "'": '&#39;', '"': '&#34;' }
  return text(value.replace(/[&<>'"]/g, (char) => marks[char]!))
}

function toInt(value: Value, args: Value[], named: Named): Value {
  const [fallback = 0, base = 10] = bind('int', ['default', 'base'], args, named)
  if (value instanceof Undefined) defined(value)
  if (typeof value === 'string') {
    const parsed = intOfText(value, numberOf(base as number))
    return parsed === null ? fallback : parsed
  }
  if (isRaw(value)) return value
  if (isNumber(value)) return Number.isFinite(numberOf(value)) ? Math.trunc(numberOf(value)) : fallback
  return fallback
}

function intOfText(value: string, base: number): Value | null {
  const digits = value.trim().replaceAll('_', '')
  if (base === 10 && /^[+-]?\d+$/.test(digits) && digits.length < 400) return wholeNumber(digits)
  if (base !== 10 && /^[+-]?\w+$/.test(digits)) {
    const number = Number.parseInt(digits, base)
    return Number.isNaN(number) ? null : number
  }
  const number = /^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$/.test(digits) ? Number(digits) : Number.NaN
  return Number.isFinite(number) ? Math.trunc(number) : null
}

function toFloat(value: Value, args: Value[], named: Named): Value {
  const [fallback = new Float(0)] = bind('float', ['default'], args, named)
  if (value instanceof Undefined) defined(value)
  if (isNumber(value)) return float(numberOf(value))
  if (typeof value !== 'string') return fallback
  const digits = value.trim().replaceAll('_', '')
  return /^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$/.test(digits) ? float(Number(digits)) : fallback
}

function hashFilter(value: Value, args: Value[], named: Named): Value {
  const [kind = 'md5', salt] = bind('hash', ['hash_type', 'salt'], args, named)
  const name = toText(kind)
  if (!HASHES.includes(name)) throw new TemplateError(`the hash ${JSON.stringify(name)} is not supported`)
  const hash = createHash(name).update(toText(value), 'utf8')
  if (salt !== undefined && salt !== null && salt !== '') hash.update(toText(salt), 'utf8')
  return hash.digest('hex')
}

function hmacFilter(value: Value, args: Value[], named: Named): Value {
  const [key, kind = 'sha256'] = bind('hmac', ['key', 'hash_type'], args, named)
  if (kind !== 'sha256') throw new TemplateError('hmac knows sha256 only')
  return createHmac('sha256', toText(key ?? ''))
    .update(toText(value), 'utf8')
    .digest('hex')
}

function replaceFilter(value: Value, args: Value[], named: Named): Value {
  const [from, to, count] = bind('replace', ['old', 'new', 'count'], args, named)
  return replaceText(
    toText(value),
    toText(from ?? ''),
    toText(to ?? ''),
    count === undefined || count === null ? -1 : numberArgument(count, 'count'),
  )
}

function mapFilter(value: Value, args: Value[], named: Named): Value {
  const items = itemsOf(value)
  countItems(items.length)
  if (Object.hasOwn(named, 'attribute')) {
    const read = reader(named.attribute)
    const fallback = Object.hasOwn(named, 'default') ? named.default : undefined
    return items.map((item) => {
      const found = read(item)
      return found instanceof Undefined && fallback !== undefined ? fallback : found
    })
  }
  const [name, ...rest] = args
  const filter = typeof name === 'string' ? findFilter(name) : undefined
  if (filter === undefined) throw new TemplateError(`map needs the name of a filter, or an attribute`)
  return items.map((item) => filter(item, rest, named))
}

export function replaceText(value: string, from: string, to: string, count: number): string {
  const parts = from === '' ? ['', ...value, ''] : value.split(from)
  const growth = Math.max(0, to.length - from.length)
  if (parts.length * growth > 1_000_000) throw new TemplateError('a replacement makes a text too long')
  if (count < 0 || count >= parts.length - 1) return text(parts.join(to))
  return text([...parts.slice(0, count), parts.slice(count).join(from)].join(to))
}

function roundFilter(value: Value, args: Value[], named: Named): Value {
  const [precision = 0, method = 'common'] = bind('round', ['precision', 'method'], args, named)
  const factor = 10 ** numberArgument(precision, 'precision')
  const number = numberArgument(value, 'round') * factor
  if (method === 'ceil') return float(Math.ceil(number) / factor)
  if (method === 'floor') return float(Math.floor(number) / factor)
  return float(halfToEven(number) / factor)
}

function halfToEven(value: number): number {
  const rounded = Math.round(value)
  return Math.abs(value % 1) === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded
}

export function stripText(value: string, chars: string | null, side: 'both' | 'left' | 'right'): string {
  const drop = (char: string | undefined): boolean =>
    char !== undefined && (chars === null ? /\s/.test(char) : chars.includes(char))
  let from = 0
  let to = value.length
  if (side !== 'right') while (from < to && drop(value[from])) from++
  if (side !== 'left') while (to > from && drop(value[to - 1])) to--
  return value.slice(from, to)
}

function urlEncode(value: Value): Value {
  if (isDict(value))
    return Object.entries(value)
      .map(([key, item]) => pair(key, item))
      .join('&')
  if (Array.isArray(value))
    return value.map((item) => (Array.isArray(item) ? pair(toText(item[0]!), item[1]!) : '')).join('&')
  return text(quote(toText(value), '/'))
}

function pair(key: string, value: Value): string {
  return `${quote(key, '').replaceAll('%20', '+')}=${quote(toText(value), '').replaceAll('%20', '+')}`
}

/** JSON as Python's `json.dumps` writes it: a space after commas and colons, and ASCII only. */
function toJsonText(value: Value, sorted = false, indent: Value | undefined = undefined): string {
  if (indent !== undefined && isNumber(indent))
    return JSON.stringify(plain(value), null, Math.min(numberOf(indent), 10))
  const json = write(value, sorted, 0)
  return json.replace(/[\u007f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

function write(value: Value, sorted: boolean, depth: number): string {
  if (depth > 200) throw new TemplateError('a value is nested too deeply')
  if (value === null || typeof value === 'boolean') return String(value)
  if (isNumber(value)) return toText(value)
  if (typeof value === 'string') return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map((item) => write(item, sorted, depth + 1)).join(', ')}]`
  if (!isDict(value)) throw new WrongType('a value is not JSON')
  const keys = sorted ? Object.keys(value).sort() : Object.keys(value)
  return `{${keys.map((key) => `${JSON.stringify(key)}: ${write(value[key]!, sorted, depth + 1)}`).join(', ')}}`
}

function plain(value: Value): unknown {
  return JSON.parse(write(value, false, 0))
}

/** Jinja's tojson is meant for HTML. */
function htmlSafeJson(json: string): string {
  return json
    .replaceAll('<', '\\u003c')
    .replaceAll('>', '\\u003e')
    .replaceAll('&', '\\u0026')
    .replaceAll("'", '\\u0027')
}
