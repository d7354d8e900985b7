/** Turns a syntax tree into functions, once; rendering only calls them. */
import { itemsOf, unknownName } from './arguments.ts'
import { type Filter, findFilter } from './filters.ts'
import { countItems, step, text } from './limits.ts'
import { MACRO_VALUES } from './macros.ts'
import { attribute, item, slice } from './members.ts'
import type { Arguments, Expression, Statement } from './nodes.ts'
import { binary, compareValues, defined, negate } from './operators.ts'
import { isTest, runTest } from './tests.ts'
import {
  Callable,
  float,
  isDict,
  keyText,
  type Named,
  orUndefined,
  setKey,
  TemplateError,
  Tuple,
  toText,
  truthy,
  typeName,
  Undefined,
  type Value,
  WrongType,
  wholeNumber,
} from './values.ts'

/** What a template sees: its variables, and the names that it sets itself. */
interface Frame {
  variable(name: string): Value
  locals: Locals
}

export class Locals {
  readonly #values = new Map<string, Value>()
  readonly #parent: Locals | null
  constructor(parent: Locals | null) {
    this.#parent = parent
  }

  get(name: string): Value | undefined {
    const value = this.#values.get(name)
    return value === undefined ? this.#parent?.get(name) : value
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value)
  }
}

type Evaluate = (frame: Frame) => Value
type Render = (frame: Frame, out: string[]) => void

export function compileStatements(statements: Statement[]): Render {
  const parts = statements.map(compileStatement)
  return (frame, out) => {
    for (const part of parts) part(frame, out)
  }
}

function compileStatement(statement: Statement): Render {
  switch (statement.kind) {
    case 'text':
      return (_, out) => {
        out.push(statement.text)
      }
    case 'output': {
      const evaluate = compileExpression(statement.of)
      return (frame, out) => {
        out.push(text(toText(evaluate(frame))))
      }
    }
    case 'if':
      return compileIf(statement)
    case 'for':
      return compileFor(statement)
    case 'set':
      return compileSet(statement)
    case 'capture': {
      const body = compileStatements(statement.body)
      return (frame) => {
        const inner: string[] = []
        body(frame, inner)
        frame.locals.set(statement.name, text(inner.join('')))
      }
    }
  }
}

function compileIf({ branches, otherwise }: Statement & { kind: 'if' }): Render {
  const compiled = branches.map(([when, body]) => [compileExpression(when), compileStatements(body)] as const)
  const last = compileStatements(otherwise)
  return (frame, out) => {
    const branch = compiled.find(([when]) => truthy(when(frame)))
    if (branch === undefined) last(frame, out)
    else branch[1](frame, out)
  }
}

function compileFor(statement: Statement & { kind: 'for' }): Render {
  const of = compileExpression(statement.of)
  const when = statement.when === null ? null : compileExpression(statement.when)
  const body = compileStatements(statement.body)
  const otherwise = compileStatements(statement.otherwise)
  return (frame, out) => {
    const scoped = (value: Value): Frame => {
      const inner = { variable: frame.variable, locals: new Locals(frame.locals) }
      assign(inner.locals, statement.names, value)
      return inner
    }
    const all = itemsOf(of(frame))
    countItems(all.length)
    const items = when === null ? [...all] : all.filter((value) => truthy(when(scoped(value))))
    if (items.length === 0) otherwise(frame, out)
    for (const [at, value] of items.entries()) {
      step()
      const inner = scoped(value)
      inner.locals.set('loop', loopState(at, items))
      body(inner, out)
    }
  }
}

function loopState(at: number, items: Value[]): Value {
  return {
    index: at + 1,
    index0: at,
    first: at === 0,
    last: at === items.length - 1,
    length: items.length,
    revindex: items.length - at,
    revindex0: items.length - at - 1,
    previtem: orUndefined(items[at - 1], 'previtem'),
    nextitem: orUndefined(items[at + 1], 'nextitem'),
  }
}

function compileSet({ names, attribute: member, value }: Statement & { kind: 'set' }): Render {
  const evaluate = compileExpression(value)
  return (frame) => {
    step()
    if (member === null) return assign(frame.locals, names, evaluate(frame))
    const owner = frame.locals.get(names[0]!)
    if (!isDict(owner)) throw new TemplateError(`${names[0]} is not a namespace`)
    setKey(owner, member, evaluate(frame))
  }
}

function assign(locals: Locals, names: string[], value: Value): void {
  if (names.length === 1) {
    locals.set(names[0]!, value)
    return
  }
  const parts = itemsOf(defined(value))
  if (parts.length !== names.length)
    throw new WrongType(`${names.length} values are needed, ${parts.length} were given`)
  for (const [at, name] of names.entries()) locals.set(name, parts[at]!)
}

function compileExpression(node: Expression): Evaluate {
  switch (node.kind) {
    case 'literal': {
      const value =
        node.digits !== undefined ? wholeNumber(node.digits) : node.float ? float(node.value as number) : node.value
      return () => value
    }
    case 'name':
      return compileName(node.name)
    case 'list':
      return compileList(node)
    case 'dict':
      return compileDict(node)
    case 'attribute': {
      const of = compileExpression(node.of)
      return (frame) => attribute(of(frame), node.name)
    }
    case 'index': {
      const [of, at] = [compileExpression(node.of), compileExpression(node.at)]
      return (frame) => item(of(frame), at(frame))
    }
    case 'slice':
      return compileSlice(node)
    case 'call':
      return compileCall(node)
    case 'filter':
      return compileFilter(node)
    case 'test':
      return compileTest(node)
    case 'unary':
      return compileUnary(node)
    case 'binary':
      return compileBinary(node)
    case 'compare':
      return compileCompare(node)
    case 'choice':
      return compileChoice(node)
  }
}

function compileName(name: string): Evaluate {
  const macro = MACRO_VALUES.get(name)
  return (frame) => {
    const local = frame.locals.get(name)
    if (local !== undefined) return local
    // The template itself, of which Jinja shows nothing here.
    return macro ?? (name === 'self' ? {} : frame.variable(name))
  }
}

function compileList({ items, tuple }: Expression & { kind: 'list' }): Evaluate {
  const parts = items.map(compileExpression)
  return (frame) => {
    step(parts.length)
    const values = parts.map((part) => part(frame))
    return tuple ? Tuple.from(values) : values
  }
}

function compileDict({ items }: Expression & { kind: 'dict' }): Evaluate {
  const parts = items.map(([key, value]) => [compileExpression(key), compileExpression(value)] as const)
  return (frame) => {
    step(parts.length)
    const made: { [key: string]: Value } = {}
    for (const [key, value] of parts) setKey(made, keyText(key(frame)), value(frame))
    return made
  }
}

function compileSlice(node: Expression & { kind: 'slice' }): Evaluate {
  const of = compileExpression(node.of)
  const none: Evaluate = () => null
  const [from, to, by] = [node.from, node.to, node.step].map((part) => (part === null ? none : compileExpression(part)))
  return (frame) => slice(of(frame), { from: from!(frame), to: to!(frame), step: by!(frame) })
}

interface Given {
  positional: (frame: Frame) => Value[]
  named: (frame: Frame) => Named
}

function compileArguments(args: Arguments): Given {
  const positional = args.positional.map(compileExpression)
  const named = args.named.map(([name, value]) => [name, compileExpression(value)] as const)
  return {
    positional: (frame) => positional.map((part) => part(frame)),
    named: (frame) => Object.fromEntries(named.map(([name, value]) => [name, value(frame)])),
  }
}

function compileCall(node: Expression & { kind: 'call' }): Evaluate {
  const of = compileExpression(node.of)
  const args = compileArguments(node.args)
  return (frame) => {
    step()
    const called = defined(of(frame))
    if (!(called instanceof Callable)) throw new WrongType(`a ${typeName(called)} cannot be called`)
    return called.call(args.positional(frame), args.named(frame))
  }
}

function compileFilter(node: Expression & { kind: 'filter' }): Evaluate {
  const filter: Filter | undefined = findFilter(node.name)
  if (filter === undefined) throw unknownName('filter', node.name)
  const of = compileExpression(node.of)
  const args = compileArguments(node.args)
  return (frame) => {
    step()
    return filter(of(frame), args.positional(frame), args.named(frame))
  }
}

function compileTest(node: Expression & { kind: 'test' }): Evaluate {
  if (!isTest(node.name)) throw unknownName('test', node.name)
  const of = compileExpression(node.of)
  const args = node.args.map(compileExpression)
  return (frame) => {
    step()
    const passes = runTest(
      node.name,
      of(frame),
      args.map((part) => part(frame)),
    )
    return passes !== node.negated
  }
}

function compileUnary(node: Expression & { kind: 'unary' }): Evaluate {
  const of = compileExpression(node.of)
  if (node.op === 'not') return (frame) => !truthy(of(frame))
  if (node.op === '-') return (frame) => negate(of(frame))
  return (frame) => negate(negate(of(frame)))
}

function compileBinary(node: Expression & { kind: 'binary' }): Evaluate {
  const [left, right] = [compileExpression(node.left), compileExpression(node.right)]
  const { op } = node
  if (op === 'and' || op === 'or') {
    return (frame) => {
      step()
      const first = left(frame)
      return truthy(first) === (op === 'and') ? right(frame) : first
    }
  }
  return (frame) => binary(op, left(frame), right(frame))
}

function compileCompare(node: Expression & { kind: 'compare' }): Evaluate {
  const first = compileExpression(node.first)
  const rest = node.rest.map(([op, operand]) => [op, compileExpression(operand)] as const)
  return (frame) => {
    let left = first(frame)
    for (const [op, operand] of rest) {
      const right = operand(frame)
      if (!compareValues(op, left, right)) return false
      left = right
    }
    return true
  }
}

function compileChoice(node: Expression & { kind: 'choice' }): Evaluate {
  const [when, then] = [compileExpression(node.when), compileExpression(node.then)]
  const otherwise = node.otherwise === null ? null : compileExpression(node.otherwise)
  return (frame) => {
    if (truthy(when(frame))) return then(frame)
    return otherwise === null ? new Undefined('the inline if without else') : otherwise(frame)
  }
}
