import type { syntaxTree } from '@codemirror/language'

type Tree = ReturnType<typeof syntaxTree>
type SyntaxNode = Tree['topNode']

/** Where a path is in JSON text: its value, or the innermost part of it that is there. */
export function locate(tree: Tree, text: string, path: readonly (string | number)[]): { from: number; to: number } {
  let found: SyntaxNode | null = tree.topNode.firstChild
  for (const step of path) {
    const next = found && (typeof step === 'number' ? itemOf(found, step) : propertyOf(found, text, step))
    if (!next) break
    found = next
  }
  if (!found) return { from: 0, to: Math.min(1, text.length) }
  // A whole object would colour many lines: its first character is enough.
  const whole = found.name === 'Object' || found.name === 'Array'
  return { from: found.from, to: whole ? found.from + 1 : found.to }
}

function propertyOf(node: SyntaxNode, text: string, name: string): SyntaxNode | null {
  if (node.name !== 'Object') return null
  const property = node.getChildren('Property').find((candidate) => {
    const key = candidate.getChild('PropertyName')
    return key !== null && text.slice(key.from, key.to) === JSON.stringify(name)
  })
  return property?.lastChild ?? null
}

function itemOf(node: SyntaxNode, index: number): SyntaxNode | null {
  if (node.name !== 'Array') return null
  const items = []
  for (let child = node.firstChild; child; child = child.nextSibling)
    if (child.name !== '[' && child.name !== ']' && child.name !== ',') items.push(child)
  return items[index] ?? null
}
