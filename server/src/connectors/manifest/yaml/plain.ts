/**
 * Reads the YAML that nearly all manifests are written in, about ten times as fast as the `yaml` package: block mappings and
 * lists, brackets and braces, scalars of every style. Anything else, anchors, tags and errors included, is left to the
 * package. What is read here has the value that the package would give it; a test compares the two.
 */
import type { Json } from '../../../json/json.ts'
import { Lines, NotPlain, notPlain } from './lines.ts'
import { plainKey, readFlow } from './plain-flow.ts'
import { readBlock, readPlain, readQuoted } from './plain-scalars.ts'

const MOST_DEPTH = 100
const MOST_KEY = 500
/** Control characters, other line breaks, document markers and directives. */
const UNUSUAL = /[\0-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]|^(?:---|\.\.\.|%)/m
const KEY = /^(?:([\w$/.^(](?:[^ :#]|:(?! |$)| (?!#))*)|"([^"\\]*)" *|'([^']*)' *):(?: +|$)/

/** Undefined if the text holds anything that is not read here. */
export function readPlainYaml(text: string): Json | undefined {
  if (UNUSUAL.test(text)) return undefined
  try {
    const lines = new Lines(text)
    const value = readNode(lines, -1, 0)
    return lines.column === -1 ? value : undefined
  } catch (error) {
    if (error instanceof NotPlain) return undefined
    throw error
  }
}

/** The node at the current position, inside of a node that is indented by `parent`. */
function readNode(lines: Lines, parent: number, depth: number): Json {
  if (depth > MOST_DEPTH || lines.column <= parent) notPlain()
  if (isItem(lines.text)) return readList(lines, depth)
  const key = keyAt(lines)
  return key === null ? readInline(lines, parent) : readMap(lines, key, depth)
}

function readInline(lines: Lines, parent: number): Json {
  switch (lines.text[0]) {
    case '|':
    case '>':
      return readBlock(lines, parent)
    case '"':
    case "'":
      return readQuoted(lines, parent)
    case '[':
    case '{':
      return readFlow(lines, parent)
    default:
      return readPlain(lines, parent)
  }
}

const isItem = (text: string): boolean => text.startsWith('- ') || text === '-'

function readList(lines: Lines, depth: number): Json[] {
  const { column } = lines
  const items: Json[] = []
  while (lines.column === column && isItem(lines.text)) {
    const rest = lines.text.slice(1).trimStart()
    if (rest !== '' && !rest.startsWith('#')) {
      lines.skip(lines.text.length - rest.length)
      items.push(readNode(lines, column, depth + 1))
    } else {
      lines.advance()
      items.push(lines.column > column ? readNode(lines, column, depth + 1) : null)
    }
  }
  if (lines.column > column) notPlain()
  return items
}

function readMap(lines: Lines, first: RegExpExecArray, depth: number): Json {
  const { column } = lines
  const made: { [key: string]: Json } = {}
  for (let found: RegExpExecArray | null = first; found !== null; found = nextKey(lines, column)) {
    const key = found[1] === undefined ? (found[2] ?? found[3]!) : plainKey(found[1].trimEnd())
    if (found[0].length > MOST_KEY || key === '__proto__' || Object.hasOwn(made, key)) notPlain()
    lines.skip(found[0].length)
    made[key] = readValue(lines, column, depth)
  }
  return made
}

/** Only the start of a line is looked at: it may be megabytes long, and a longer key is refused anyway. */
const keyAt = ({ text }: Lines): RegExpExecArray | null =>
  KEY.exec(text.length > 2 * MOST_KEY ? text.slice(0, 2 * MOST_KEY) : text)

function nextKey(lines: Lines, column: number): RegExpExecArray | null {
  if (lines.column < column) return null
  if (lines.column > column) notPlain()
  return keyAt(lines) ?? notPlain()
}

/** The value after a key at `column`. */
function readValue(lines: Lines, column: number, depth: number): Json {
  if (lines.text !== '' && !lines.text.startsWith('#')) return readInline(lines, column)
  lines.advance()
  if (lines.column > column) return readNode(lines, column, depth + 1)
  // A list may stand at the column of its key.
  return lines.column === column && isItem(lines.text) ? readList(lines, depth + 1) : null
}
