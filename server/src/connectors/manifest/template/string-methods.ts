/** Methods of Python's str. */
import { itemsOf, numberArgument, textArgument } from './arguments.ts'
import { replaceText, stripText } from './filters.ts'
import { countItems, produce, text } from './limits.ts'
import { joinTexts } from './list-filters.ts'
import { getKey, type Method, TemplateError, Tuple, toText, type Value, WrongType } from './values.ts'

const strip =
  (side: 'both' | 'left' | 'right'): Method<string> =>
  (self, [chars]) =>
    stripText(self, chars === undefined || chars === null ? null : textArgument(chars, 'chars'), side)

const pad =
  (place: (self: string, width: number, fill: string) => string): Method<string> =>
  (self, [width, fill]) => {
    const size = numberArgument(width, 'width')
    produce(size)
    return place(self, size, fill === undefined ? ' ' : textArgument(fill, 'fillchar'))
  }

const matches =
  (pattern: RegExp): Method<string> =>
  (self) =>
    pattern.test(self)

export const STRING_METHODS: Record<string, Method<string>> = {
  capitalize: (self) => self.slice(0, 1).toUpperCase() + self.slice(1).toLowerCase(),
  casefold: (self) => self.toLowerCase(),
  count: (self, [part]) => self.split(textArgument(part, 'sub')).length - 1,
  endswith: (self, [suffix]) => anyOf(suffix, (end) => self.endsWith(end)),
  find: (self, [part]) => self.indexOf(textArgument(part, 'sub')),
  format: formatMethod,
  index: (self, [part]) => {
    const at = self.indexOf(textArgument(part, 'sub'))
    if (at === -1) throw new TemplateError('substring not found')
    return at
  },
  isalnum: matches(/^[\p{L}\p{N}]+$/u),
  isalpha: matches(/^\p{L}+$/u),
  isdecimal: matches(/^\d+$/),
  isdigit: matches(/^\d+$/),
  islower: (self) => self === self.toLowerCase() && self !== self.toUpperCase(),
  isnumeric: matches(/^\p{N}+$/u),
  isspace: matches(/^\s+$/),
  isupper: (self) => self === self.toUpperCase() && self !== self.toLowerCase(),
  join: (self, [items]) =>
    joinTexts(
      itemsOf(items ?? null).map((item) => textArgument(item, 'an item of join')),
      self,
    ),
  ljust: pad((self, width, fill) => self.padEnd(width, fill)),
  lower: (self) => self.toLowerCase(),
  lstrip: strip('left'),
  partition: (self, [separator]) => partition(self, textArgument(separator, 'sep'), self.indexOf(toText(separator!))),
  removeprefix: (self, [prefix]) => {
    const start = textArgument(prefix, 'prefix')
    return start !== '' && self.startsWith(start) ? self.slice(start.length) : self
  },
  removesuffix: (self, [suffix]) => {
    const end = textArgument(suffix, 'suffix')
    return end !== '' && self.endsWith(end) ? self.slice(0, -end.length) : self
  },
  replace: (self, [from, to, count]) =>
    replaceText(
      self,
      textArgument(from, 'old'),
      textArgument(to, 'new'),
      count === undefined ? -1 : numberArgument(count, 'count'),
    ),
  rfind: (self, [part]) => self.lastIndexOf(textArgument(part, 'sub')),
  rjust: pad((self, width, fill) => self.padStart(width, fill)),
  rpartition: (self, [separator]) => {
    const at = self.lastIndexOf(textArgument(separator, 'sep'))
    return at === -1 ? Tuple.from(['', '', self]) : partition(self, toText(separator!), at)
  },
  rsplit: (self, [separator, most]) => split(self, separator, most, true),
  rstrip: strip('right'),
  split: (self, args, named) =>
    split(self, args[0] ?? getKey(named, 'sep'), args[1] ?? getKey(named, 'maxsplit'), false),
  splitlines: (self) => self.split(/\r\n|[\n\r\v\f]/).filter((line, at, lines) => line !== '' || at < lines.length - 1),
  startswith: (self, [prefix]) => anyOf(prefix, (start) => self.startsWith(start)),
  strip: strip('both'),
  swapcase: (self) =>
    [...self].map((char) => (char === char.toUpperCase() ? char.toLowerCase() : char.toUpperCase())).join(''),
  title: (self) => self.replace(/\p{L}+/gu, (word) => word.slice(0, 1).toUpperCase() + word.slice(1).toLowerCase()),
  upper: (self) => self.toUpperCase(),
  zfill: (self, [width]) => {
    const size = numberArgument(width, 'width')
    produce(size)
    const sign = /^[+-]/.exec(self)?.[0] ?? ''
    return sign + self.slice(sign.length).padStart(size - sign.length, '0')
  },
}

function anyOf(argument: Value | undefined, test: (text: string) => boolean): boolean {
  if (Array.isArray(argument)) return argument.some((part) => test(textArgument(part, 'a prefix or suffix')))
  return test(textArgument(argument, 'a prefix or suffix'))
}

function partition(self: string, separator: string, at: number): Value {
  if (at === -1) return Tuple.from([self, '', ''])
  return Tuple.from([self.slice(0, at), separator, self.slice(at + separator.length)])
}

function split(self: string, separator: Value | undefined, most: Value | undefined, fromRight: boolean): Value {
  const limit = most === undefined ? -1 : numberArgument(most, 'maxsplit')
  const spaces = separator === undefined || separator === null
  const parts = spaces ? self.trim().split(/\s+/) : self.split(nonEmpty(textArgument(separator, 'sep')))
  if (spaces && self.trim() === '') return []
  countItems(parts.length)
  if (limit < 0 || parts.length <= limit + 1) return parts
  const glue = spaces ? ' ' : toText(separator)
  if (fromRight) return [parts.slice(0, parts.length - limit).join(glue), ...parts.slice(parts.length - limit)]
  return [...parts.slice(0, limit), parts.slice(limit).join(glue)]
}

function nonEmpty(separator: string): string {
  if (separator === '') throw new TemplateError('empty separator')
  return separator
}

/** `'{} of {name}'.format(…)` with plain fields. */
function formatMethod(self: string, args: Value[], named: Record<string, Value>): Value {
  let next = 0
  const made = self.replace(/\{\{|\}\}|\{(\w*)\}|[{}]/g, (whole, field: string | undefined) => {
    if (whole === '{{') return '{'
    if (whole === '}}') return '}'
    if (field === undefined) throw new TemplateError('format fields with conversions are not supported')
    const value = field === '' ? args[next++] : /^\d+$/.test(field) ? args[Number(field)] : getKey(named, field)
    if (value === undefined) throw new WrongType(`format has no value for {${field}}`)
    produce(toText(value).length)
    return toText(value)
  })
  return text(made)
}
