/** What may follow `is`. */
import { numberArgument } from './arguments.ts'
import type { CompareOperator } from './nodes.ts'
import { compareValues, equals } from './operators.ts'
import { isDict, isFloat, isNumber, TemplateError, toText, Undefined, type Value } from './values.ts'

type Test = (value: Value, args: Value[]) => boolean

const compared =
  (op: CompareOperator): Test =>
  (value, [other]) =>
    compareValues(op, value, other ?? null)

const TESTS: Record<string, Test> = {
  boolean: (value) => typeof value === 'boolean',
  defined: (value) => !(value instanceof Undefined),
  divisibleby: (value, [by]) => numberArgument(value, 'divisibleby') % numberArgument(by, 'divisibleby') === 0,
  even: (value) => numberArgument(value, 'even') % 2 === 0,
  odd: (value) => Math.abs(numberArgument(value, 'odd') % 2) === 1,
  false: (value) => value === false,
  true: (value) => value === true,
  float: (value) => isFloat(value),
  integer: (value) => isNumber(value) && typeof value !== 'boolean' && !isFloat(value),
  number: (value) => isNumber(value),
  iterable: (value) => typeof value === 'string' || Array.isArray(value) || isDict(value) || value instanceof Undefined,
  mapping: (value) => isDict(value),
  sequence: (value) => typeof value === 'string' || Array.isArray(value) || isDict(value),
  string: (value) => typeof value === 'string',
  none: (value) => value === null,
  lower: (value) => toText(value) === toText(value).toLowerCase() && /[a-z]/i.test(toText(value)),
  upper: (value) => toText(value) === toText(value).toUpperCase() && /[a-z]/i.test(toText(value)),
  sameas: (value, [other]) => (isNumber(value) ? equals(value, other ?? null) : value === other),
  undefined: (value) => value instanceof Undefined,
  in: (value, [container]) => compareValues('in', value, container ?? null),
  eq: compared('=='),
  equalto: compared('=='),
  '==': compared('=='),
  ne: compared('!='),
  '!=': compared('!='),
  gt: compared('>'),
  greaterthan: compared('>'),
  '>': compared('>'),
  ge: compared('>='),
  '>=': compared('>='),
  lt: compared('<'),
  lessthan: compared('<'),
  '<': compared('<'),
  le: compared('<='),
  '<=': compared('<='),
}

export function isTest(name: string): boolean {
  return Object.hasOwn(TESTS, name)
}

export function runTest(name: string, value: Value, args: Value[]): boolean {
  if (!isTest(name)) throw new TemplateError(`the test "${name}" is not supported`)
  return TESTS[name]!(value, args)
}
