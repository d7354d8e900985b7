/** Templates as a tree: text, outputs and the statements if, for and set. Expressions are in expressions.ts. */
import { ExpressionParser } from './expressions.ts'
import { type Token, tokenize } from './lexer.ts'
import type { Statement } from './nodes.ts'
import { TemplateError } from './values.ts'

const MOST_SOURCE = 64 * 1024
const MOST_DEPTH = 64

export function parseTemplate(source: string): Statement[] {
  if (source.length > MOST_SOURCE) throw new TemplateError(`a template is longer than ${MOST_SOURCE} characters`)
  const parser = new TemplateParser(tokenize(source))
  return parser.parseAll()
}

class TemplateParser extends ExpressionParser {
  #depth = 0

  parseAll(): Statement[] {
    const body = this.#parseBody([])
    if (this.peek() !== undefined) throw new TemplateError('unexpected end of a block')
    return body
  }

  /** Statements up to one of the given words, which is left to be read after its opening. */
  #parseBody(ends: readonly string[]): Statement[] {
    if (++this.#depth > MOST_DEPTH) throw new TemplateError('blocks are nested too deeply')
    const body: Statement[] = []
    for (;;) {
      const token = this.peek()
      if (token === undefined) break
      if (token.kind === 'text') {
        this.next()
        body.push({ kind: 'text', text: token.text })
      } else if (token.kind === 'open' && token.block === 'output') {
        this.next()
        body.push({ kind: 'output', of: this.parseTuple() })
        this.#close()
      } else {
        const word = this.peek(1)
        if (word?.kind === 'name' && ends.includes(word.text)) break
        body.push(this.#parseStatement())
      }
    }
    this.#depth--
    return body
  }

  #parseStatement(): Statement {
    this.next()
    const word = this.name()
    if (word === 'if') return this.#parseIf()
    if (word === 'for') return this.#parseFor()
    if (word === 'set') return this.#parseSet()
    throw new TemplateError(`the statement "${word}" is not supported`)
  }

  #parseIf(): Statement {
    const branches: Array<[ReturnType<TemplateParser['parseExpression']>, Statement[]]> = []
    let otherwise: Statement[] = []
    let when = this.parseTuple()
    this.#close()
    for (;;) {
      branches.push([when, this.#parseBody(['elif', 'else', 'endif'])])
      const word = this.#openWord()
      if (word === 'elif') {
        when = this.parseTuple()
        this.#close()
        continue
      }
      if (word === 'else') {
        this.#close()
        otherwise = this.#parseBody(['endif'])
        this.#expectWord('endif')
      }
      this.#close()
      return { kind: 'if', branches, otherwise }
    }
  }

  #parseFor(): Statement {
    const names = this.#parseTargets()
    this.expectName('in')
    const of = this.parseTuple(false)
    const when = this.takeName('if') ? this.parseExpression() : null
    this.takeName('recursive')
    this.#close()
    const body = this.#parseBody(['else', 'endfor'])
    let otherwise: Statement[] = []
    if (this.#openWord() === 'else') {
      this.#close()
      otherwise = this.#parseBody(['endfor'])
      this.#expectWord('endfor')
    }
    this.#close()
    return { kind: 'for', names, of, when, body, otherwise }
  }

  #parseSet(): Statement {
    const names = this.#parseTargets()
    const attribute = names.length === 1 && this.take('.') ? this.name() : null
    if (this.take('=')) {
      const value = this.parseTuple()
      this.#close()
      return { kind: 'set', names, attribute, value }
    }
    this.#close()
    const body = this.#parseBody(['endset'])
    this.#expectWord('endset')
    this.#close()
    return { kind: 'capture', name: names[0]!, body }
  }

  #parseTargets(): string[] {
    const bracket = this.take('(')
    const names = [this.name()]
    while (this.take(',')) names.push(this.name())
    if (bracket) this.expect(')')
    return names
  }

  #openWord(): string {
    const token = this.next()
    if (token?.kind !== 'open') throw new TemplateError('a block is not closed')
    return this.name()
  }

  #expectWord(word: string): void {
    if (this.#openWord() !== word) throw new TemplateError(`a block is not closed by ${word}`)
  }

  #close(): void {
    // A colon before the end is allowed for those who write Python.
    this.take(':')
    const token: Token | undefined = this.next()
    if (token?.kind !== 'close') throw new TemplateError(`unexpected ${describe(token)}`)
  }
}

function describe(token: Token | undefined): string {
  if (token === undefined) return 'end of the template'
  return 'text' in token ? JSON.stringify(token.text) : 'a new block'
}
