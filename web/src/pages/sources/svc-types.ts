/**
 * What an expression in the editor is, as far as the package `svc` is concerned: `self` in a source is an AbstractSource,
 * `self.http.get(…)` a Response. The names, signatures and docstrings are those of the package (svc.json is generated).
 */
import { ensureSyntaxTree, syntaxTree } from '@codemirror/language'
import type { EditorState } from '@codemirror/state'
import svc from './svc.json'

export interface Described {
  kind: string
  signature: string
  doc: string
  parameters?: string[]
  returns: string | null
}

export const modules = svc.modules as Record<string, Record<string, Described>>
export const types = svc.types as Record<string, Record<string, Described>>

/** The module to import a public name from. */
export const moduleOf = new Map(
  Object.entries(modules)
    .reverse()
    .flatMap(([module, names]) => Object.keys(names).map((name) => [name, module] as const)),
)

type Node = ReturnType<ReturnType<typeof syntaxTree>['resolveInner']>

/** The tree up to a place. It is parsed in the background, and a completion cannot wait for its turn. */
export function treeAt(state: EditorState, position: number): ReturnType<typeof syntaxTree> {
  return ensureSyntaxTree(state, position, PARSE_MS) ?? syntaxTree(state)
}

const PARSE_MS = 200

/** The class of which an expression is an instance, or null if that is not known here. */
export function typeOf(state: EditorState, node: Node | null, depth = 0): string | null {
  if (node === null || depth > 20) return null
  if (node.name === 'VariableName') return typeOfVariable(state, node, depth)
  if (node.name === 'CallExpression') return classNamed(described(state, node.firstChild, depth + 1)?.returns)
  if (node.name === 'MemberExpression') {
    const member = described(state, node, depth + 1)
    return member?.kind === 'attribute' ? classNamed(member.returns) : null
  }
  return null
}

/** What a name or a member of `svc` is. */
export function described(state: EditorState, node: Node | null, depth = 0): Described | null {
  if (node === null) return null
  if (node.name === 'VariableName') {
    const name = textOf(state, node)
    const module = moduleOf.get(name)
    return module === undefined ? null : modules[module]![name]!
  }
  if (node.name !== 'MemberExpression') return null
  const owner = typeOf(state, node.firstChild, depth + 1)
  const property = node.lastChild
  return owner === null || property === null ? null : (types[owner]?.[textOf(state, property)] ?? null)
}

export function textOf(state: EditorState, node: Node): string {
  return state.sliceDoc(node.from, node.to)
}

function typeOfVariable(state: EditorState, node: Node, depth: number): string | null {
  const name = textOf(state, node)
  if (name === 'self') return 'AbstractSource'
  return typeOfAssigned(state, name, node.from, depth)
}

/** The last assignment above, which is nearly always the right one: `response = self.http.get(…)`. */
function typeOfAssigned(state: EditorState, name: string, before: number, depth: number): string | null {
  let found: Node | null = null
  treeAt(state, before).iterate({
    to: before,
    enter: ({ node }) => {
      if (node.name !== 'AssignStatement' || node.to > before) return
      const target = node.firstChild
      if (target?.name === 'VariableName' && textOf(state, target) === name) found = node
    },
  })
  return found === null ? null : typeOf(state, (found as Node).lastChild, depth + 1)
}

function classNamed(hint: string | null | undefined): string | null {
  return hint && Object.hasOwn(types, hint) ? hint : null
}
