/** Python's `'%02d' % value`. */
import { produce } from './limits.ts'
import { isDict, isNumber, numberOf, repr, TemplateError, Tuple, toText, type Value, WrongType } from './values.ts'

const FIELD = /%(?:\((\w+)\))?([-+ 0#]*)([1-9]\d*)?(?:\.(\d+))?([a-zA-Z%])/g

export function percentFormat(format: string, operand: Value): string {
  const values = operand instanceof Tuple ? [...operand] : [operand]
  let used = 0
  return format.replace(
    FIELD,
    (_, key: string | undefined, flags: string, width: string | undefined, digits: string, kind: string) => {
      if (kind === '%') return '%'
      const value =
        key === undefined ? values[used++] : isDict(operand) && Object.hasOwn(operand, key) ? operand[key] : undefined
      if (value === undefined) throw new WrongType('not enough arguments for the format')
      const size = Number(width ?? 0)
      produce(size)
      return padded(convert(value, kind, digits === undefined ? null : Number(digits), flags), size, flags)
    },
  )
}

function convert(value: Value, kind: string, digits: number | null, flags: string): string {
  if (kind === 's') return digits === null ? toText(value) : toText(value).slice(0, digits)
  if (kind === 'r') return repr(value)
  if (!isNumber(value)) throw new WrongType(`%${kind} needs a number`)
  const number = numberOf(value)
  const sign = number >= 0 && flags.includes('+') ? '+' : ''
  if (kind === 'd' || kind === 'i' || kind === 'u') return sign + String(Math.trunc(number))
  if (kind === 'f' || kind === 'F') return sign + number.toFixed(Math.min(digits ?? 6, 100))
  if (kind === 'e') return sign + number.toExponential(Math.min(digits ?? 6, 100))
  if (kind === 'x') return Math.trunc(number).toString(16)
  if (kind === 'X') return Math.trunc(number).toString(16).toUpperCase()
  if (kind === 'o') return Math.trunc(number).toString(8)
  if (kind === 'g') return sign + String(Number(number.toPrecision(Math.min(digits || 6, 100))))
  throw new TemplateError(`the format %${kind} is not supported`)
}

function padded(text: string, width: number, flags: string): string {
  if (flags.includes('-')) return text.padEnd(width)
  if (!flags.includes('0')) return text.padStart(width)
  const sign = /^[+-]/.exec(text)?.[0] ?? ''
  return sign + text.slice(sign.length).padStart(width - sign.length, '0')
}
