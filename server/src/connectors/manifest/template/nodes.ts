/** The syntax tree of a template. */

export type Expression =
  | { kind: 'literal'; value: null | boolean | number | string; float?: boolean; digits?: string }
  | { kind: 'name'; name: string }
  | { kind: 'list'; items: Expression[]; tuple: boolean }
  | { kind: 'dict'; items: Array<[Expression, Expression]> }
  | { kind: 'attribute'; of: Expression; name: string }
  | { kind: 'index'; of: Expression; at: Expression }
  | { kind: 'slice'; of: Expression; from: Expression | null; to: Expression | null; step: Expression | null }
  | { kind: 'call'; of: Expression; args: Arguments }
  | { kind: 'filter'; of: Expression; name: string; args: Arguments }
  | { kind: 'test'; of: Expression; name: string; args: Expression[]; negated: boolean }
  | { kind: 'unary'; op: '-' | '+' | 'not'; of: Expression }
  | { kind: 'binary'; op: BinaryOperator; left: Expression; right: Expression }
  | { kind: 'compare'; first: Expression; rest: Array<[CompareOperator, Expression]> }
  | { kind: 'choice'; when: Expression; then: Expression; otherwise: Expression | null }

export interface Arguments {
  positional: Expression[]
  named: Array<[string, Expression]>
}

export type BinaryOperator = '+' | '-' | '*' | '/' | '//' | '%' | '**' | '~' | 'and' | 'or'
export type CompareOperator = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | 'not in'

export type Statement =
  | { kind: 'text'; text: string }
  | { kind: 'output'; of: Expression }
  | { kind: 'if'; branches: Array<[Expression, Statement[]]>; otherwise: Statement[] }
  | { kind: 'for'; names: string[]; of: Expression; when: Expression | null; body: Statement[]; otherwise: Statement[] }
  | { kind: 'set'; names: string[]; attribute: string | null; value: Expression }
  | { kind: 'capture'; name: string; body: Statement[] }
