/** Arguments of macros, filters and methods: by position or by name, with the type that is asked for. */
import { defined } from './operators.ts'
import { isNumber, type Named, numberOf, TemplateError, typeName, Undefined, type Value, WrongType } from './values.ts'

/** The values in the order of the parameters; undefined for one that was not given. */
export function bind(
  name: string,
  parameters: readonly string[],
  args: Value[],
  named: Named,
): Array<Value | undefined> {
  if (args.length > parameters.length) throw new WrongType(`${name} takes at most ${parameters.length} arguments`)
  const bound = parameters.map((parameter, at) => (at < args.length ? args[at] : namedValue(named, parameter)))
  for (const key of Object.keys(named)) {
    if (!parameters.includes(key)) throw new WrongType(`${name} has no argument ${key}`)
  }
  return bound
}

function namedValue(named: Named, parameter: string): Value | undefined {
  return Object.hasOwn(named, parameter) ? named[parameter] : undefined
}

export function textArgument(value: Value | undefined, what: string): string {
  if (value === undefined) throw new WrongType(`${what} is missing`)
  if (typeof value !== 'string') throw new WrongType(`${what} must be a str, not ${typeName(value)}`)
  return value
}

export function numberArgument(value: Value | undefined, what: string): number {
  if (value === undefined) throw new WrongType(`${what} is missing`)
  if (!isNumber(defined(value))) throw new WrongType(`${what} must be a number, not ${typeName(value)}`)
  return numberOf(value as number)
}

export function itemsOf(value: Value): Value[] {
  if (value instanceof Undefined) return []
  if (Array.isArray(value)) return value
  if (typeof value === 'string') return [...value]
  if (typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype) {
    return Object.keys(value)
  }
  throw new WrongType(`a ${typeName(value)} cannot be iterated`)
}

export function lengthOf(value: Value): number {
  if (value instanceof Undefined) return 0
  if (typeof value === 'string') return [...value].length
  return itemsOf(value).length
}

export function unknownName(kind: string, name: string): TemplateError {
  return new TemplateError(`the ${kind} "${name}" is not supported`)
}
