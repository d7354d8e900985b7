/** A YAML file, and where in it something is: lines and columns from 1, as editors count them. */
import { type Document, isMap, isNode, isPair, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'

export interface Place {
  file: string
  line: number
  column: number
}

export interface YamlFile {
  file: string
  value: unknown
  /** What is wrong with the text itself; `value` is then null. */
  faults: (Place & { message: string })[]
  /** The value if it is a text or a number, else its name; of what is missing, the place where it would be. */
  locate(steps: readonly (string | number)[], byName?: boolean): Place
}

export function readYaml(file: string, text: string): YamlFile {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const placeAt = (offset: number): Place => {
    const { line, col } = lines.linePos(offset)
    return { file, line: Math.max(1, line), column: Math.max(1, col) }
  }
  const faults = [...document.errors, ...document.warnings].map(({ message, pos }) => ({ ...placeAt(pos[0]), message }))
  const locate: YamlFile['locate'] = (steps, byName = false) => placeAt(findOffset(document, steps, byName))
  if (faults.length > 0) return { file, value: null, faults, locate }
  try {
    return { file, value: document.toJS({ maxAliasCount: 100 }), faults, locate }
  } catch (error) {
    return { file, value: null, faults: [{ ...placeAt(0), message: (error as Error).message }], locate }
  }
}

function findOffset(document: Document, steps: readonly (string | number)[], byName: boolean): number {
  let node: unknown = document.contents
  let offset = isNode(node) ? startOf(node) : 0
  for (const step of steps) {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => String(isScalar(key) ? key.value : key) === String(step))
      if (!pair) return offset
      offset = isNode(pair.key) ? startOf(pair.key) : offset
      node = pair.value
    } else if (isSeq(node)) {
      const item: unknown = node.items[Number(step)]
      if (!isNode(item) || isPair(item)) return offset
      offset = startOf(item)
      node = item
    } else return offset
  }
  return isScalar(node) && !byName ? startOf(node) : offset
}

const startOf = (node: Node): number => node.range?.[0] ?? 0
