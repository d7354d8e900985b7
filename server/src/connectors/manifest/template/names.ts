/** The variables that a template needs from outside: all names but those it sets, loops over, or finds among the macros. */
import { MACRO_VALUES } from './macros.ts'
import type { Expression, Statement } from './nodes.ts'

export function freeNames(statements: Statement[]): Set<string> {
  const found = new Set<string>()
  visit(statements, new Set(), found)
  return found
}

function visit(statements: Statement[], known: Set<string>, found: Set<string>): void {
  for (const statement of statements) visitStatement(statement, known, found)
}

function visitStatement(statement: Statement, known: Set<string>, found: Set<string>): void {
  const read = (node: Expression): void => collect(node, known, found)
  if (statement.kind === 'output') read(statement.of)
  else if (statement.kind === 'if') {
    for (const [when, body] of statement.branches) {
      read(when)
      visit(body, known, found)
    }
    visit(statement.otherwise, known, found)
  } else if (statement.kind === 'for') {
    read(statement.of)
    const inner = new Set([...known, ...statement.names, 'loop'])
    if (statement.when !== null) collect(statement.when, inner, found)
    visit(statement.body, inner, found)
    visit(statement.otherwise, known, found)
  } else if (statement.kind === 'set') {
    read(statement.value)
    for (const name of statement.names) known.add(name)
  } else if (statement.kind === 'capture') {
    visit(statement.body, known, found)
    known.add(statement.name)
  }
}

function collect(node: Expression, known: Set<string>, found: Set<string>): void {
  if (node.kind === 'name') {
    if (node.name !== 'self' && !known.has(node.name) && !MACRO_VALUES.has(node.name)) found.add(node.name)
    return
  }
  for (const child of children(node)) collect(child, known, found)
}

function children(node: Expression): Expression[] {
  switch (node.kind) {
    case 'literal':
    case 'name':
      return []
    case 'list':
      return node.items
    case 'dict':
      return node.items.flat()
    case 'attribute':
    case 'unary':
      return [node.of]
    case 'index':
      return [node.of, node.at]
    case 'slice':
      return [node.of, node.from, node.to, node.step].filter((part) => part !== null)
    case 'call':
    case 'filter':
      return [node.of, ...node.args.positional, ...node.args.named.map(([, value]) => value)]
    case 'test':
      return [node.of, ...node.args]
    case 'binary':
      return [node.left, node.right]
    case 'compare':
      return [node.first, ...node.rest.map(([, operand]) => operand)]
    case 'choice':
      return [node.when, node.then, ...(node.otherwise === null ? [] : [node.otherwise])]
  }
}
