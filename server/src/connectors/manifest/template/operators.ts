/** Operators with Python's rules for types. */
import { CalendarDate, DateTime, Delta } from '../dates/datetime.ts'
import { countItems, produce, step, text } from './limits.ts'
import type { BinaryOperator, CompareOperator } from './nodes.ts'
import { percentFormat } from './percent-format.ts'
import {
  CalendarDuration,
  type Dict,
  float,
  getKey,
  isDict,
  isFloat,
  isNumber,
  isRaw,
  keyText,
  type Numeric,
  numberOf,
  TemplateError,
  Tuple,
  toText,
  typeName,
  Undefined,
  UndefinedUse,
  type Value,
  WrongType,
} from './values.ts'

export function defined(value: Value): Exclude<Value, Undefined> {
  if (value instanceof Undefined) throw new UndefinedUse(`'${value.name}' is undefined`)
  return value
}

export function binary(op: Exclude<BinaryOperator, 'and' | 'or'>, left: Value, right: Value): Value {
  step()
  if (op === '~') return text(toText(left) + toText(right))
  const a = defined(left)
  const b = defined(right)
  if (op === '%' && typeof a === 'string') return text(percentFormat(a, b))
  if (isNumber(a) && isNumber(b)) return arithmetic(op, a, b)
  if (op === '+') return add(a, b)
  if (op === '-') return subtract(a, b)
  if (op === '*') return multiply(a, b)
  if (a instanceof Delta && isNumber(b) && (op === '/' || op === '//')) return a.times(1 / nonZero(numberOf(b)))
  if (a instanceof Delta && b instanceof Delta && op === '/') return float(a.totalSeconds / nonZero(b.totalSeconds))
  throw unsupported(op, a, b)
}

function arithmetic(op: string, left: Numeric, right: Numeric): Value {
  const a = numberOf(left)
  const b = numberOf(right)
  const whole = !isFloat(left) && !isFloat(right)
  const result = calculate(op, a, b)
  if (op === '/') return float(result)
  if (!whole || (op === '**' && b < 0)) return float(result)
  return result
}

function calculate(op: string, a: number, b: number): number {
  if (op === '+') return a + b
  if (op === '-') return a - b
  if (op === '*') return a * b
  if (op === '/') return a / nonZero(b)
  if (op === '//') return Math.floor(a / nonZero(b))
  if (op === '%') return a - Math.floor(a / nonZero(b)) * b
  const power = a ** b
  if (!Number.isFinite(power)) throw new TemplateError('a power is too large')
  return power
}

function nonZero(value: number): number {
  if (value === 0) throw new TemplateError('division by zero')
  return value
}

function add(a: Value, b: Value): Value {
  if (typeof a === 'string' && typeof b === 'string') {
    produce(a.length + b.length)
    return a + b
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    countItems(a.length + b.length)
    return a instanceof Tuple ? Tuple.from([...a, ...b]) : [...a, ...b]
  }
  if (a instanceof Delta && b instanceof Delta) return a.plus(b)
  if (a instanceof DateTime || a instanceof CalendarDate) return shift(a, b, 1)
  if (b instanceof DateTime || b instanceof CalendarDate) return shift(b, a, 1)
  throw unsupported('+', a, b)
}

function subtract(a: Value, b: Value): Value {
  if (a instanceof DateTime && b instanceof DateTime) {
    if ((a.offset === null) !== (b.offset === null)) throw new WrongType('a time with a zone and one without differ')
    return a.minus(b)
  }
  if (a instanceof CalendarDate && b instanceof CalendarDate) return a.minus(b)
  if (a instanceof Delta && b instanceof Delta) return a.plus(b.negated())
  if (a instanceof DateTime || a instanceof CalendarDate) return shift(a, b, -1)
  throw unsupported('-', a, b)
}

function shift(time: DateTime | CalendarDate, by: Value, sign: 1 | -1): Value {
  try {
    if (by instanceof Delta) return time.plus(sign === 1 ? by : by.negated())
    if (by instanceof CalendarDuration) {
      const { months, delta } = by.duration
      return time.plusMonths(sign * months).plus(sign === 1 ? delta : delta.negated())
    }
  } catch (error) {
    throw new TemplateError(error instanceof Error ? error.message : 'a date is out of range')
  }
  throw unsupported(sign === 1 ? '+' : '-', time, by)
}

function multiply(a: Value, b: Value): Value {
  if (isNumber(a) && !isNumber(b)) return multiply(b, a)
  if (!isNumber(b)) throw unsupported('*', a, b)
  const times = Math.max(0, Math.trunc(numberOf(b)))
  if (typeof a === 'string') {
    produce(a.length * times)
    return a.repeat(times)
  }
  if (Array.isArray(a)) {
    countItems(a.length * times)
    return Array.from({ length: times }, () => a).flat()
  }
  if (a instanceof Delta) return a.times(numberOf(b))
  throw unsupported('*', a, b)
}

export function negate(value: Value): Value {
  const operand = defined(value)
  if (isNumber(operand)) return isFloat(operand) ? float(-numberOf(operand)) : -numberOf(operand)
  if (operand instanceof Delta) return operand.negated()
  throw new WrongType(`bad operand for -: ${typeName(operand)}`)
}

export function compareValues(op: CompareOperator, a: Value, b: Value): boolean {
  step()
  if (op === '==') return equals(a, b)
  if (op === '!=') return !equals(a, b)
  if (op === 'in') return contains(b, a)
  if (op === 'not in') return !contains(b, a)
  const order = compareOrder(a, b)
  if (op === '<') return order < 0
  if (op === '<=') return order <= 0
  if (op === '>') return order > 0
  return order >= 0
}

export function equals(a: Value, b: Value, depth = 0): boolean {
  if (depth > 200) throw new TemplateError('a value is nested too deeply')
  if (a === b) return true
  if (isNumber(a) && isNumber(b)) {
    if (isRaw(a) && isRaw(b)) return a.rawJSON === b.rawJSON
    return numberOf(a) === numberOf(b)
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    step(Math.min(a.length, 64))
    return a.length === b.length && a.every((item, at) => equals(item, b[at]!, depth + 1))
  }
  if (a instanceof DateTime && b instanceof DateTime) return a.compare(b) === 0
  if (a instanceof CalendarDate && b instanceof CalendarDate) return a.compare(b) === 0
  if (a instanceof Delta && b instanceof Delta) return a.compare(b) === 0
  if (a instanceof Undefined && b instanceof Undefined) return true
  if (isDict(a) && isDict(b)) return dictEquals(a, b, depth)
  return false
}

function dictEquals(a: Dict, b: Dict, depth: number): boolean {
  const keys = Object.keys(a)
  step(Math.min(keys.length, 64))
  if (keys.length !== Object.keys(b).length) return false
  return keys.every((key) => {
    const other = getKey(b, key)
    return other !== undefined && equals(a[key]!, other, depth + 1)
  })
}

/** Negative, zero or positive; values of different types have no order. */
export function compareOrder(left: Value, right: Value): number {
  const a = defined(left)
  const b = defined(right)
  if (isNumber(a) && isNumber(b)) return numberOf(a) - numberOf(b)
  if (typeof a === 'string' && typeof b === 'string') return a < b ? -1 : a > b ? 1 : 0
  if (a instanceof DateTime && b instanceof DateTime) return a.compare(b)
  if (a instanceof CalendarDate && b instanceof CalendarDate) return a.compare(b)
  if (a instanceof Delta && b instanceof Delta) return a.compare(b)
  if (Array.isArray(a) && Array.isArray(b)) {
    for (let at = 0; at < Math.min(a.length, b.length); at++) {
      if (!equals(a[at]!, b[at]!)) return compareOrder(a[at]!, b[at]!)
    }
    return a.length - b.length
  }
  throw new WrongType(`${typeName(a)} and ${typeName(b)} cannot be compared`)
}

function contains(container: Value, item: Value): boolean {
  if (container instanceof Undefined) return false
  if (typeof container === 'string') {
    if (typeof item !== 'string') throw new WrongType(`a ${typeName(item)} cannot be in a str`)
    return container.includes(item)
  }
  if (Array.isArray(container)) {
    step(container.length)
    return container.some((candidate) => equals(candidate, item))
  }
  if (isDict(container)) return Object.hasOwn(container, keyText(item))
  throw new WrongType(`a ${typeName(container)} contains nothing`)
}

function unsupported(op: string, a: Value, b: Value): WrongType {
  return new WrongType(`${typeName(a)} ${op} ${typeName(b)} is not possible`)
}
