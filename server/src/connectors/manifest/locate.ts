/**
 * Where in the YAML a finding is about. The compiler works on plain values without positions, so the stream that it names is
 * looked up in the document, and in there the words that the reason quotes. What is not found is line 1.
 */
import { type Document, isMap, isScalar, isSeq, LineCounter, parseDocument, type YAMLMap } from 'yaml'

export interface Position {
  /** From 1. */
  line: number
  /** From 0. */
  column: number
}

export interface Locator {
  /** Of a reason that concerns the whole manifest, or `stream: reason`. */
  locate(reason: string): Position
}

const START: Position = { line: 1, column: 0 }
/** Above it a second reading of the document would take too long. */
const MOST_CHARACTERS = 512 * 1024
const MOST_REFERENCES = 20
/** A reason quotes the manifest, which may be anything. */
const LONGEST_REASON = 2000
/**
 * What may be looked at in one document: items of lists and mappings, and characters. References can multiply both, and
 * whatever is not found by then is at the start of its component.
 */
const MOST_NODES = 20_000
const MOST_SEARCHED = 32 * 1024 * 1024

export function openLocator(text: string): Locator {
  if (text.length > MOST_CHARACTERS) return { locate: () => START }
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: false })
  const streams = streamsOf(document)
  const search = new Search(text)
  return {
    locate(given) {
      const reason = given.slice(0, LONGEST_REASON)
      const name = nameIn(reason, streams)
      const node = name === null ? null : streams.get(name)!
      const about = name === null ? reason : reason.slice(name.length + 2)
      const [from, to] = node?.range ?? [0, text.length]
      const offset = search.findWords(about, from, to) ?? (node === null ? null : from)
      if (offset === null) return START
      const { line, col } = lines.linePos(offset)
      return { line, column: col - 1 }
    },
  }
}

/** The stream that a reason begins with. */
function nameIn(reason: string, streams: ReadonlyMap<string, unknown>): string | null {
  for (let at = reason.indexOf(': '); at !== -1; at = reason.indexOf(': ', at + 1))
    if (streams.has(reason.slice(0, at))) return reason.slice(0, at)
  return null
}

/** Streams by name, also those behind conditions and references. */
function streamsOf(document: Document): Map<string, YAMLMap> {
  const found = new Map<string, YAMLMap>()
  const list = document.get('streams')
  const targets = new Map<string, unknown>()
  let left = MOST_NODES
  /** To find a key, a mapping is searched from its beginning. */
  const find = (reference: string): unknown => {
    if (targets.has(reference)) return targets.get(reference)
    let node: unknown = document.contents
    for (const key of reference.slice(2).split('/')) {
      if (!isMap(node) && !isSeq(node)) return undefined
      left -= node.items.length
      if (left < 0) return undefined
      node = node.get(key, true)
    }
    targets.set(reference, node)
    return node
  }
  const add = (item: unknown, depth: number): void => {
    left -= 1
    if (left < 0) return
    const node = follow(find, item)
    if (node === null || depth > 2) return
    left -= node.items.length
    const inner = node.get('streams')
    if (isSeq(inner)) for (const each of inner.items) add(each, depth + 1)
    const name = node.get('name') ?? node.getIn(['$parameters', 'name'])
    if (typeof name === 'string' && !found.has(name)) found.set(name, node)
  }
  if (isSeq(list)) for (const item of list.items) add(item, 0)
  return found
}

/** The mapping that an item is, or refers to by `$ref` or as text. */
function follow(find: (reference: string) => unknown, item: unknown): YAMLMap | null {
  let node = item
  for (let count = 0; count < MOST_REFERENCES; count++) {
    const reference = isScalar(node) ? node.value : isMap(node) && !node.has('name') ? node.get('$ref') : null
    if (typeof reference !== 'string' || !reference.startsWith('#/')) return isMap(node) ? node : null
    node = find(reference)
  }
  return null
}

class Search {
  readonly #text: string
  #left = MOST_SEARCHED

  constructor(text: string) {
    this.#text = text
  }

  /** The first place of what a reason quotes, or of a field or component that it names. */
  findWords(reason: string, from: number, to: number): number | null {
    const quoted = [...reason.matchAll(/"((?:[^"\\]|\\.)+)"/g)].map(([, inside]) => inside!.replace(/\\(.)/g, '$1'))
    for (const words of quoted) {
      const offset = this.#indexOf(words, from)
      if (offset !== -1 && offset < to) return offset
      const anywhere = this.#indexOf(words, 0)
      if (anywhere !== -1) return anywhere
    }
    const names = (reason.match(/\b[A-Za-z]\w*(?:\.\w+)*/g) ?? []).filter((name) => /[A-Z_.]/.test(name.slice(1)))
    for (const name of names.flatMap((dotted) => [dotted, ...dotted.split('.').reverse()])) {
      const offset = this.#indexOfWord(name, from)
      if (offset !== -1 && offset < to) return offset
    }
    return null
  }

  /** -1 if the budget is used up. */
  #indexOf(words: string, from: number): number {
    if (this.#left <= 0) return -1
    const offset = this.#text.indexOf(words, from)
    this.#left -= (offset === -1 ? this.#text.length : offset) - from + 1
    return offset
  }

  #indexOfWord(word: string, from: number): number {
    for (let at = this.#indexOf(word, from); at !== -1; at = this.#indexOf(word, at + 1)) {
      const isWhole = !/\w/.test(this.#text[at - 1] ?? ' ') && !/\w/.test(this.#text[at + word.length] ?? ' ')
      if (isWhole) return at
    }
    return -1
  }
}
