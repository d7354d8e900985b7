/** Attributes, items, slices and methods of values. What does not exist is undefined, as in Jinja. */
import { CalendarDate, DateTime, Delta } from '../dates/datetime.ts'
import { numberArgument } from './arguments.ts'
import { DICT_METHODS, LIST_METHODS } from './container-methods.ts'
import { DATE_MEMBERS } from './date-methods.ts'
import { countItems, step } from './limits.ts'
import { defined } from './operators.ts'
import { STRING_METHODS } from './string-methods.ts'
import {
  Callable,
  getKey,
  isDict,
  isFloat,
  isNumber,
  keyText,
  type Method,
  numberOf,
  orUndefined,
  Tuple,
  Undefined,
  type Value,
  WrongType,
} from './values.ts'

/** `value.name`: an attribute or method first, then a key. */
export function attribute(value: Value, name: string): Value {
  step()
  const owner = defined(value)
  const method = methodOf(owner, name)
  if (method !== null) return method
  if (isDict(owner)) return orUndefined(getKey(owner, name), name)
  return new Undefined(name)
}

/** `value[key]`: a key or position first, then an attribute. */
export function item(value: Value, key: Value): Value {
  step()
  const owner = defined(value)
  const at = key instanceof Undefined ? defined(key) : key
  if (isDict(owner)) {
    const found = getKey(owner, keyText(at))
    if (found !== undefined) return found
  } else if ((Array.isArray(owner) || typeof owner === 'string') && isNumber(at) && !isFloat(at)) {
    const index = numberOf(at)
    const found = owner.at(index)
    return found === undefined || index < -owner.length ? new Undefined(String(index)) : found
  }
  if (typeof at === 'string') return methodOf(owner, at) ?? new Undefined(at)
  return new Undefined(String(at))
}

function methodOf(owner: Exclude<Value, Undefined>, name: string): Value | null {
  if (typeof owner === 'string') return bound(STRING_METHODS, name, owner)
  if (Array.isArray(owner)) return bound(LIST_METHODS, name, owner)
  if (owner instanceof DateTime || owner instanceof CalendarDate || owner instanceof Delta) {
    const member = Object.hasOwn(DATE_MEMBERS, name) ? DATE_MEMBERS[name]!(owner) : null
    return member
  }
  if (isDict(owner)) return bound(DICT_METHODS, name, owner)
  return null
}

function bound<T>(methods: Record<string, Method<T>>, name: string, self: T): Callable | null {
  if (!Object.hasOwn(methods, name)) return null
  const method = methods[name]!
  return new Callable((args, named) => method(self, args, named))
}

interface Bounds {
  from: Value
  to: Value
  step: Value
}

export function slice(value: Value, bounds: Bounds): Value {
  const owner = defined(value)
  if (typeof owner !== 'string' && !Array.isArray(owner)) return new Undefined('slice')
  const by = bounds.step === null ? 1 : numberArgument(bounds.step, 'a step')
  if (by === 0) throw new WrongType('a slice step cannot be zero')
  const positions = slicePositions(owner.length, limit(bounds.from), limit(bounds.to), by)
  countItems(positions.length)
  if (typeof owner === 'string') return positions.map((at) => owner[at]).join('')
  const items = positions.map((at) => owner[at]!)
  return owner instanceof Tuple ? Tuple.from(items) : items
}

function limit(value: Value): number | null {
  return value === null ? null : Math.trunc(numberArgument(value, 'a slice'))
}

function slicePositions(length: number, from: number | null, to: number | null, by: number): number[] {
  const clamp = (at: number): number => {
    const positive = at < 0 ? at + length : at
    return by > 0 ? Math.min(Math.max(positive, 0), length) : Math.min(Math.max(positive, -1), length - 1)
  }
  const start = from === null ? (by > 0 ? 0 : length - 1) : clamp(from)
  const end = to === null ? (by > 0 ? length : -1) : clamp(to)
  const positions: number[] = []
  for (let at = start; by > 0 ? at < end : at > end; at += by) positions.push(at)
  return positions
}
