/** Filters over lists. */
import { bind, itemsOf, numberArgument } from './arguments.ts'
import { countItems, produce, text } from './limits.ts'
import { compareOrder, equals } from './operators.ts'
import { runTest } from './tests.ts'
import {
  float,
  getKey,
  isDict,
  isFloat,
  type Named,
  orUndefined,
  Tuple,
  toText,
  truthy,
  Undefined,
  type Value,
} from './values.ts'

type Filter = (value: Value, args: Value[], named: Named) => Value
type Items = Value[]

export const LIST_FILTERS: Record<string, Filter> = {
  dictsort: (value) =>
    isDict(value)
      ? sorted(Object.keys(value), (key) => toText(key).toLowerCase()).map((key) =>
          Tuple.from([key, value[key as string]!]),
        )
      : [],
  first: (value) => orUndefined(itemsOf(value)[0], 'first'),
  items: (value) => (isDict(value) ? Object.entries(value).map((entry) => Tuple.from(entry)) : []),
  join: joinFilter,
  last: (value) => orUndefined(itemsOf(value).at(-1), 'last'),
  list: (value) => {
    const items = itemsOf(value)
    countItems(items.length)
    return [...items]
  },
  max: (value, args, named) => extreme(value, 1, bind('max', ['case_sensitive', 'attribute'], args, named)[1]),
  min: (value, args, named) => extreme(value, -1, bind('min', ['case_sensitive', 'attribute'], args, named)[1]),
  reject: (value, args) => chosen(value, args, (item) => item, false),
  rejectattr: (value, [attribute, ...test]) => chosen(value, test, reader(attribute), false),
  reverse: (value) => (typeof value === 'string' ? [...value].reverse().join('') : [...itemsOf(value)].reverse()),
  select: (value, args) => chosen(value, args, (item) => item, true),
  selectattr: (value, [attribute, ...test]) => chosen(value, test, reader(attribute), true),
  sort: sortFilter,
  sum: sumFilter,
  unique: uniqueFilter,
}

/** Reads an attribute path such as `a.b` or `0` of an item. */
export function reader(attribute: Value | undefined): (item: Value) => Value {
  const path = toText(attribute ?? '').split('.')
  return (item) => path.reduce<Value>((value, key) => member(value, key), item)
}

function member(value: Value, key: string): Value {
  if (isDict(value)) return orUndefined(getKey(value, key), key)
  if (Array.isArray(value) && /^\d+$/.test(key)) return orUndefined(value[Number(key)], key)
  return new Undefined(key)
}

function joinFilter(value: Value, args: Value[], named: Named): Value {
  const [separator = '', attribute] = bind('join', ['d', 'attribute'], args, named)
  const read = attribute === undefined ? (item: Value) => item : reader(attribute)
  return joinTexts(
    itemsOf(value).map((item) => toText(read(item))),
    toText(separator),
  )
}

export function joinTexts(parts: string[], separator: string): string {
  produce(parts.reduce((sum, part) => sum + part.length + separator.length, 0))
  return text(parts.join(separator))
}

function chosen(value: Value, test: Value[], read: (item: Value) => Value, keep: boolean): Items {
  const items = itemsOf(value)
  countItems(items.length)
  const [name, ...args] = test
  return items.filter((item) => {
    const passes = name === undefined ? truthy(read(item)) : runTest(toText(name), read(item), args)
    return passes === keep
  })
}

function sortFilter(value: Value, args: Value[], named: Named): Value {
  const [reverse = false, sensitive = false, attribute] = bind(
    'sort',
    ['reverse', 'case_sensitive', 'attribute'],
    args,
    named,
  )
  const read = attribute === undefined || attribute === null ? (item: Value) => item : reader(attribute)
  const fold = (item: Value): Value => {
    const key = read(item)
    return typeof key === 'string' && !truthy(sensitive) ? key.toLowerCase() : key
  }
  const ordered = sorted(itemsOf(value), fold)
  return truthy(reverse) ? ordered.reverse() : ordered
}

function sorted(items: Value[], read: (item: Value) => Value): Value[] {
  countItems(items.length * 4)
  return [...items].sort((a, b) => compareOrder(read(a), read(b)))
}

function extreme(value: Value, sign: 1 | -1, attribute: Value | undefined): Value {
  const items = itemsOf(value)
  if (items.length === 0) return new Undefined('max')
  const read = attribute === undefined ? (item: Value) => item : reader(attribute)
  return items.reduce((best, item) => (sign * compareOrder(read(item), read(best)) > 0 ? item : best))
}

function sumFilter(value: Value, args: Value[], named: Named): Value {
  const [attribute, start = 0] = bind('sum', ['attribute', 'start'], args, named)
  const read = attribute === undefined || attribute === null ? (item: Value) => item : reader(attribute)
  const items = itemsOf(value).map(read)
  countItems(items.length)
  const total = items.reduce<number>(
    (sum, item) => sum + numberArgument(item, 'an item of sum'),
    numberArgument(start, 'start'),
  )
  return items.some(isFloat) ? float(total) : total
}

function uniqueFilter(value: Value, args: Value[], named: Named): Value {
  const [sensitive = false, attribute] = bind('unique', ['case_sensitive', 'attribute'], args, named)
  const read = attribute === undefined || attribute === null ? (item: Value) => item : reader(attribute)
  const keys: Value[] = []
  return itemsOf(value).filter((item) => {
    countItems(keys.length)
    const key = read(item)
    const folded = typeof key === 'string' && !truthy(sensitive) ? key.toLowerCase() : key
    if (keys.some((known) => equals(known, folded))) return false
    keys.push(folded)
    return true
  })
}
