/** The grammar of expressions, by precedence: if/else, or, and, not, comparisons, + -, ~, * / // %, unary, **, postfix. */
import type { Token } from './lexer.ts'
import type { Arguments, BinaryOperator, CompareOperator, Expression } from './nodes.ts'
import { TemplateError } from './values.ts'

const MOST_DEPTH = 200

const CONSTANTS: Record<string, null | boolean> = {
  true: true,
  True: true,
  false: false,
  False: false,
  none: null,
  None: null,
}

const COMPARISONS = ['==', '!=', '<=', '>=', '<', '>'] as const

export class ExpressionParser {
  readonly #tokens: Token[]
  #at = 0
  #depth = 0

  constructor(tokens: Token[]) {
    this.#tokens = tokens
  }

  peek(ahead = 0): Token | undefined {
    return this.#tokens[this.#at + ahead]
  }

  next(): Token | undefined {
    return this.#tokens[this.#at++]
  }

  take(operator: string): boolean {
    const token = this.peek()
    if (token?.kind !== 'operator' || token.text !== operator) return false
    this.#at++
    return true
  }

  expect(operator: string): void {
    if (!this.take(operator)) throw new TemplateError(`"${operator}" is missing`)
  }

  takeName(name: string): boolean {
    const token = this.peek()
    if (token?.kind !== 'name' || token.text !== name) return false
    this.#at++
    return true
  }

  expectName(name: string): void {
    if (!this.takeName(name)) throw new TemplateError(`"${name}" is missing`)
  }

  name(): string {
    const token = this.next()
    if (token?.kind !== 'name') throw new TemplateError('a name is missing')
    return token.text
  }

  /** One expression, or several with commas between them, which are a tuple. */
  parseTuple(conditional = true): Expression {
    const first = conditional ? this.parseExpression() : this.#parseOr()
    if (!this.take(',')) return first
    const items = [first]
    while (!this.#atEnd()) {
      items.push(this.parseExpression())
      if (!this.take(',')) break
    }
    return { kind: 'list', items, tuple: true }
  }

  parseExpression(): Expression {
    if (++this.#depth > MOST_DEPTH) throw new TemplateError('an expression is nested too deeply')
    let then = this.#parseOr()
    while (this.takeName('if')) {
      const when = this.#parseOr()
      const otherwise = this.takeName('else') ? this.parseExpression() : null
      then = { kind: 'choice', when, then, otherwise }
    }
    this.#depth--
    return then
  }

  #parseOr(): Expression {
    let left = this.#parseAnd()
    while (this.takeName('or')) left = { kind: 'binary', op: 'or', left, right: this.#parseAnd() }
    return left
  }

  #parseAnd(): Expression {
    let left = this.#parseNot()
    while (this.takeName('and')) left = { kind: 'binary', op: 'and', left, right: this.#parseNot() }
    return left
  }

  #parseNot(): Expression {
    const token = this.peek()
    const following = this.peek(1)
    if (token?.kind === 'name' && token.text === 'not' && !(following?.kind === 'name' && following.text === 'in')) {
      if (++this.#depth > MOST_DEPTH) throw new TemplateError('an expression is nested too deeply')
      this.next()
      const of = this.#parseNot()
      this.#depth--
      return { kind: 'unary', op: 'not', of }
    }
    return this.#parseCompare()
  }

  #parseCompare(): Expression {
    const first = this.#parseSum()
    const rest: Array<[CompareOperator, Expression]> = []
    for (;;) {
      const op = this.#takeComparison()
      if (op === null) break
      rest.push([op, this.#parseSum()])
    }
    return rest.length === 0 ? first : { kind: 'compare', first, rest }
  }

  #takeComparison(): CompareOperator | null {
    for (const op of COMPARISONS) if (this.take(op)) return op
    if (this.takeName('in')) return 'in'
    const following = this.peek(1)
    if (following?.kind === 'name' && following.text === 'in' && this.takeName('not')) {
      this.next()
      return 'not in'
    }
    return null
  }

  #parseSum(): Expression {
    return this.#parseLeft(['+', '-'], () => this.#parseConcat())
  }

  #parseConcat(): Expression {
    return this.#parseLeft(['~'], () => this.#parseProduct())
  }

  #parseProduct(): Expression {
    return this.#parseLeft(['*', '/', '//', '%'], () => this.#parsePower())
  }

  #parseLeft(operators: readonly BinaryOperator[], operand: () => Expression): Expression {
    let left = operand()
    for (;;) {
      const op = operators.find((candidate) => this.take(candidate))
      if (op === undefined) return left
      left = { kind: 'binary', op, left, right: operand() }
    }
  }

  #parsePower(): Expression {
    return this.#parseLeft(['**'], () => this.#parseUnary(true))
  }

  /** A sign and filters bind more tightly than `**` does. */
  #parseUnary(filters: boolean): Expression {
    if (++this.#depth > MOST_DEPTH) throw new TemplateError('an expression is nested too deeply')
    let of: Expression
    if (this.take('-')) of = { kind: 'unary', op: '-', of: this.#parseUnary(false) }
    else if (this.take('+')) of = { kind: 'unary', op: '+', of: this.#parseUnary(false) }
    else of = this.#parsePrimary()
    of = this.#parsePostfix(of)
    this.#depth--
    return filters ? this.#parseFilters(of) : of
  }

  #parsePrimary(): Expression {
    const token = this.next()
    if (token === undefined) throw new TemplateError('an expression is missing')
    if (token.kind === 'number') {
      const float = /[.eE]/.test(token.text)
      const digits = !float && !Number.isSafeInteger(Number(token.text)) ? token.text : undefined
      return { kind: 'literal', value: Number(token.text), ...(float && { float }), ...(digits && { digits }) }
    }
    if (token.kind === 'string') return { kind: 'literal', value: this.#joined(token.text) }
    if (token.kind === 'name') return this.#nameOrConstant(token.text)
    if (token.kind === 'operator' && token.text === '(') return this.#parseParenthesis()
    if (token.kind === 'operator' && token.text === '[') return this.#parseList()
    if (token.kind === 'operator' && token.text === '{') return this.#parseDict()
    throw new TemplateError(`unexpected ${'text' in token ? JSON.stringify(token.text) : 'end of an expression'}`)
  }

  #nameOrConstant(name: string): Expression {
    const constant = CONSTANTS[name]
    return constant === undefined ? { kind: 'name', name } : { kind: 'literal', value: constant }
  }

  /** Strings that follow each other are one. */
  #joined(first: string): string {
    let text = first
    for (let token = this.peek(); token?.kind === 'string'; token = this.peek()) {
      text += token.text
      this.next()
    }
    return text
  }

  #parseParenthesis(): Expression {
    if (this.take(')')) return { kind: 'list', items: [], tuple: true }
    const inner = this.parseTuple()
    this.expect(')')
    return inner
  }

  #parseList(): Expression {
    const items: Expression[] = []
    while (!this.take(']')) {
      if (items.length > 0) this.expect(',')
      if (this.take(']')) break
      items.push(this.parseExpression())
    }
    return { kind: 'list', items, tuple: false }
  }

  #parseDict(): Expression {
    const items: Array<[Expression, Expression]> = []
    while (!this.take('}')) {
      if (items.length > 0) this.expect(',')
      if (this.take('}')) break
      const key = this.parseExpression()
      this.expect(':')
      items.push([key, this.parseExpression()])
    }
    return { kind: 'dict', items }
  }

  #parsePostfix(of: Expression): Expression {
    let value = of
    for (let links = 0; ; links++) {
      if (links > MOST_DEPTH) throw new TemplateError('an expression is too long')
      if (this.take('.')) {
        const token = this.next()
        if (token?.kind === 'name') value = { kind: 'attribute', of: value, name: token.text }
        else if (token?.kind === 'number')
          value = { kind: 'index', of: value, at: { kind: 'literal', value: Number(token.text) } }
        else throw new TemplateError('a name is missing after "."')
      } else if (this.take('[')) value = this.#parseIndex(value)
      else if (this.take('(')) value = { kind: 'call', of: value, args: this.#parseArguments() }
      else return value
    }
  }

  #parseIndex(of: Expression): Expression {
    const part = (): Expression | null => {
      const token = this.peek()
      const end = token?.kind === 'operator' && (token.text === ':' || token.text === ']')
      return end ? null : this.parseExpression()
    }
    const from = part()
    if (!this.take(':')) {
      this.expect(']')
      if (from === null) throw new TemplateError('an index is missing')
      return { kind: 'index', of, at: from }
    }
    const to = part()
    const step = this.take(':') ? part() : null
    this.expect(']')
    return { kind: 'slice', of, from, to, step }
  }

  #parseArguments(): Arguments {
    const args: Arguments = { positional: [], named: [] }
    let first = true
    while (!this.take(')')) {
      if (!first) this.expect(',')
      first = false
      if (this.take(')')) break
      const token = this.peek()
      const following = this.peek(1)
      if (token?.kind === 'name' && following?.kind === 'operator' && following.text === '=') {
        this.next()
        this.next()
        args.named.push([token.text, this.parseExpression()])
      } else args.positional.push(this.parseExpression())
    }
    return args
  }

  #parseFilters(of: Expression): Expression {
    let value = of
    for (let links = 0; ; links++) {
      if (links > MOST_DEPTH) throw new TemplateError('an expression is too long')
      if (this.take('|')) {
        const name = this.name()
        const args = this.take('(') ? this.#parseArguments() : { positional: [], named: [] }
        value = { kind: 'filter', of: value, name, args }
      } else if (this.takeName('is')) value = this.#parseTest(value)
      else if (this.take('(')) value = this.#parsePostfix({ kind: 'call', of: value, args: this.#parseArguments() })
      else return value
    }
  }

  #parseTest(of: Expression): Expression {
    const negated = this.takeName('not')
    const name = this.name()
    let args: Expression[] = []
    if (this.take('(')) args = this.#parseArguments().positional
    else if (this.#startsTestArgument()) args = [this.#parsePostfix(this.#parsePrimary())]
    return { kind: 'test', of, name, args, negated }
  }

  /** `x is divisibleby 3` and `x is in y` take one argument without brackets. */
  #startsTestArgument(): boolean {
    const token = this.peek()
    if (token === undefined) return false
    if (token.kind === 'string' || token.kind === 'number') return true
    if (token.kind === 'operator') return token.text === '[' || token.text === '{'
    return token.kind === 'name' && !['else', 'or', 'and', 'is', 'if', 'not', 'in'].includes(token.text)
  }

  #atEnd(): boolean {
    const token = this.peek()
    return token === undefined || token.kind === 'close' || (token.kind === 'operator' && '=)'.includes(token.text))
  }
}
