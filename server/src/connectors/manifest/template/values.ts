/**
 * The values of templates, which are Python's. JSON values are themselves; a few classes stand for what JSON lacks.
 *
 * A number that is whole is an int unless it is a `Float`, because Python writes `2.0` where a division gave it.
 */
import { CalendarDate, DateTime, Delta } from '../dates/datetime.ts'
import type { IsoDuration } from '../dates/iso.ts'

/** A float whose value is whole; other floats are plain numbers. */
export class Float {
  readonly value: number
  constructor(value: number) {
    this.value = value
  }
}

/** What a missing name, key or attribute is. It prints as nothing, and whatever else is done with it fails. */
export class Undefined {
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
}

export class Tuple extends Array<Value> {}

/** A duration with months or years, which only an addition to a date resolves. */
export class CalendarDuration {
  readonly duration: IsoDuration
  constructor(duration: IsoDuration) {
    this.duration = duration
  }
}

/** What a template may call. */
export class Callable {
  readonly call: (args: Value[], named: Named) => Value
  constructor(call: (args: Value[], named: Named) => Value) {
    this.call = call
  }
}

/** A number whose digits no JavaScript number holds, as JSON.rawJSON keeps it. */
export interface RawNumber {
  readonly rawJSON: string
}

/** Node has these; TypeScript's library does not declare them yet. */
const RawJson = JSON as unknown as { rawJSON(text: string): RawNumber; isRawJSON(value: unknown): boolean }

export type Dict = { [key: string]: Value }
export type Named = Record<string, Value>
export type Method<T> = (self: T, args: Value[], named: Named) => Value
export type Value =
  | null
  | boolean
  | number
  | string
  | Float
  | Undefined
  | DateTime
  | CalendarDate
  | Delta
  | CalendarDuration
  | Callable
  | RawNumber
  | Value[]
  | Dict

/** A template that cannot be compiled, or fails in a way that the manifest's author has to mend. */
export class TemplateError extends Error {}

/** Python's UndefinedError: the caller uses its default instead. */
export class UndefinedUse extends TemplateError {}

/** Python's TypeError, which Airbyte answers by using the text of the template itself. */
export class WrongType extends TemplateError {}

export function isDict(value: unknown): value is Dict {
  if (typeof value !== 'object' || value === null) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === Object.prototype || (prototype === null && !RawJson.isRawJSON(value))
}

export function isRaw(value: Value): value is RawNumber {
  return typeof value === 'object' && value !== null && RawJson.isRawJSON(value)
}

/** A whole number from its digits, exact whatever its size. */
export function wholeNumber(digits: string): Value {
  const number = Number(digits)
  return Number.isSafeInteger(number) ? number : RawJson.rawJSON(BigInt(digits).toString())
}

export type Numeric = number | Float | boolean | RawNumber

export function isNumber(value: Value): value is Numeric {
  return typeof value === 'number' || typeof value === 'boolean' || value instanceof Float || isRaw(value)
}

/** The number behind an int, a float or, as in Python, a boolean. */
export function numberOf(value: Numeric): number {
  if (value instanceof Float) return value.value
  if (typeof value === 'object') return Number(value.rawJSON)
  return Number(value)
}

export function isFloat(value: Value): boolean {
  if (typeof value === 'number') return !Number.isInteger(value)
  return value instanceof Float || (isRaw(value) && /[.eE]/.test(value.rawJSON))
}

export function float(value: number): number | Float {
  return Number.isInteger(value) ? new Float(value) : value
}

/** A key of a dictionary. `__proto__` is a key like any other. */
export function setKey(dict: Dict, key: string, value: Value): void {
  if (key === '__proto__')
    Object.defineProperty(dict, key, { value, enumerable: true, writable: true, configurable: true })
  else dict[key] = value
}

export function getKey(dict: Dict, key: string): Value | undefined {
  return Object.hasOwn(dict, key) ? dict[key] : undefined
}

/** None is a value like any other; only what is not there is undefined. */
export function orUndefined(value: Value | undefined, name: string): Value {
  return value === undefined ? new Undefined(name) : value
}

export function keyText(value: Value): string {
  if (typeof value === 'string') return value
  if (Array.isArray(value) || isDict(value)) throw new WrongType(`a ${typeName(value)} cannot be a key`)
  return toText(value)
}

export function truthy(value: Value): boolean {
  if (value === null || value instanceof Undefined) return false
  if (isNumber(value)) return numberOf(value) !== 0
  if (typeof value === 'string' || Array.isArray(value)) return value.length > 0
  if (value instanceof Delta) return value.seconds !== 0 || value.micros !== 0
  if (isDict(value)) return Object.keys(value).length > 0
  return true
}

export function typeName(value: Value): string {
  if (value === null) return 'NoneType'
  if (typeof value === 'boolean') return 'bool'
  if (isNumber(value)) return isFloat(value) ? 'float' : 'int'
  if (typeof value === 'string') return 'str'
  if (value instanceof Tuple) return 'tuple'
  if (Array.isArray(value)) return 'list'
  if (value instanceof DateTime) return 'datetime'
  if (value instanceof CalendarDate) return 'date'
  if (value instanceof Delta || value instanceof CalendarDuration) return 'duration'
  if (value instanceof Undefined) return 'undefined'
  if (value instanceof Callable) return 'function'
  return 'dict'
}

/** Python's `str`. */
export function toText(value: Value): string {
  if (typeof value === 'string') return value
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value === 'number') return numberText(value)
  if (value instanceof Float) return floatText(value.value)
  if (value instanceof Undefined) return ''
  if (value instanceof DateTime || value instanceof CalendarDate || value instanceof Delta) return value.toString()
  if (value instanceof CalendarDuration) return durationText(value.duration)
  if (value instanceof Callable) return '<function>'
  if (isRaw(value)) return value.rawJSON
  return repr(value)
}

const REPR_DEPTH = 200

/** Python's `repr`: what `str` gives for values inside a list or a dictionary. */
export function repr(value: Value, depth = 0): string {
  if (depth > REPR_DEPTH) throw new TemplateError('a value is nested too deeply')
  if (typeof value === 'string') return quote(value)
  if (value instanceof Undefined) return 'Undefined'
  if (Array.isArray(value)) {
    const items = value.map((item) => repr(item, depth + 1)).join(', ')
    if (value instanceof Tuple) return value.length === 1 ? `(${items},)` : `(${items})`
    return `[${items}]`
  }
  if (isDict(value)) {
    const items = Object.entries(value).map(([key, item]) => `${quote(key)}: ${repr(item, depth + 1)}`)
    return `{${items.join(', ')}}`
  }
  return toText(value)
}

function quote(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'"
  let quoted = ''
  for (const char of text) quoted += escaped(char, mark)
  return `${mark}${quoted}${mark}`
}

function escaped(char: string, mark: string): string {
  if (char === '\\' || char === mark) return `\\${char}`
  if (char === '\n') return '\\n'
  if (char === '\r') return '\\r'
  if (char === '\t') return '\\t'
  const code = char.codePointAt(0)!
  if (code < 32 || code === 127) return `\\x${code.toString(16).padStart(2, '0')}`
  return char
}

function numberText(value: number): string {
  if (Number.isInteger(value)) return Math.abs(value) < 1e21 ? String(value) : BigInt(value).toString()
  return floatText(value)
}

function floatText(value: number): string {
  if (Number.isNaN(value)) return 'nan'
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf'
  const size = Math.abs(value)
  if (size !== 0 && (size >= 1e16 || size < 1e-4)) {
    const [digits, exponent] = value.toExponential().split('e') as [string, string]
    const sign = exponent.startsWith('-') ? '-' : '+'
    return `${digits}e${sign}${exponent.slice(1).padStart(2, '0')}`
  }
  return Number.isInteger(value) ? `${value}.0` : String(value)
}

function durationText(duration: IsoDuration): string {
  const years = Math.trunc(duration.months / 12)
  const months = duration.months % 12
  const parts = [years === 0 ? '' : `${years} years`, months === 0 ? '' : `${months} months`, duration.delta.toString()]
  return parts.filter((part) => part !== '').join(', ')
}
