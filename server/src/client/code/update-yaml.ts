/**
 * Brings a file to what its object is now, and leaves everything else to its author: comments, order, references. A value that
 * takes the place of another one is written into the text as it is; otherwise the document is edited and written again. Each
 * result is read back, and one that does not say what it should is not used.
 */
import { type Document, isMap, isNode, isScalar, isSeq, type Node, parseDocument, Scalar, stringify } from 'yaml'
import type { Fields } from './objects.ts'
import { isFields, saysObject, saysValue, withoutDefaults } from './says.ts'
import { sortNames } from './yaml-text.ts'

type Steps = (string | number)[]

/** Null if it cannot be brought to that. */
export function updateObject(text: string, wanted: Fields): string | null {
  const isRight = (written: unknown) => isFields(written) && saysObject(written, wanted)
  return update(text, isRight, (editor, written) => {
    if (isFields(written)) editor.fields([], { before: withoutDefaults(written), after: withoutDefaults(wanted) }, true)
  })
}

/** A list of objects that have names. Others that the list has are kept, unless `prune`. */
export function updateList(text: string, wanted: Fields[], prune: boolean): string | null {
  const isRight = (written: unknown) =>
    Array.isArray(written) &&
    wanted.every((object) => written.some((item) => isNamed(item, object) && saysObject(trimName(item), object))) &&
    (!prune || written.length === wanted.length)
  return update(text, isRight, (editor, given) => {
    const written = Array.isArray(given) ? given : []
    for (const object of wanted) {
      const index = written.findIndex((item) => isNamed(item, object))
      if (index === -1) editor.add([], object)
      else editor.fields([index], { before: withoutDefaults(trimName(written[index])), after: object }, true)
    }
    if (prune)
      for (const [index, item] of [...written.entries()].reverse())
        if (!wanted.some((object) => isNamed(item, object))) editor.remove([index])
  })
}

const trimName = (item: Fields): Fields => ({ ...item, name: String(item.name).trim() })
export const isNamed = (item: unknown, { name }: Fields): item is Fields =>
  isFields(item) && typeof item.name === 'string' && item.name.trim() === name

interface Change {
  before: Fields
  after: Fields
}

function update(
  text: string,
  isRight: (value: unknown) => boolean,
  edit: (editor: Editor, written: unknown) => void,
): string | null {
  const read = (result: string): unknown => {
    const document = parseDocument(result, { prettyErrors: false })
    return document.errors.length > 0 ? undefined : document.toJS({ maxAliasCount: 100 })
  }
  const written = read(text)
  if (isRight(written)) return text
  const editor = new Editor(text)
  edit(editor, written)
  return editor.results().find((result) => isRight(tryRead(read, result))) ?? null
}

function tryRead(read: (text: string) => unknown, text: string): unknown {
  try {
    return read(text)
  } catch {
    return undefined
  }
}

class Editor {
  readonly #text: string
  readonly #document: Document
  /** Null once something was changed that is more than one value in the place of another. */
  #pieces: { start: number; end: number; text: string }[] | null = []

  constructor(text: string) {
    this.#text = text
    this.#document = parseDocument(text, { prettyErrors: false }) as Document
  }

  /** The least change first. */
  results(): string[] {
    return [...(this.#pieces === null ? [] : [this.#splice(this.#pieces)]), this.#write()]
  }

  fields(steps: Steps, { before, after }: Change, isFrame = false): void {
    for (const name of Object.keys(before)) if (!Object.hasOwn(after, name)) this.remove([...steps, name])
    for (const [name, value] of Object.entries(after)) {
      if (!Object.hasOwn(before, name) && !this.#document.hasIn([...steps, name])) this.add([...steps, name], value)
      else if (isFrame && name !== 'config') this.#plain([...steps, name], before[name], value)
      else this.#value([...steps, name], before[name], value)
    }
  }

  add(steps: Steps, value: unknown): void {
    this.#pieces = null
    const node = this.#document.createNode(sortNames(value))
    const holder = this.#document.getIn(steps, true)
    if (isSeq(holder)) holder.add(node)
    else this.#document.setIn(steps, node)
  }

  remove(steps: Steps): void {
    this.#pieces = null
    this.#document.deleteIn(steps)
  }

  /** Outside of a config nothing is a reference. */
  #plain(steps: Steps, before: unknown, after: unknown): void {
    if (before !== after) this.#replace(steps, after)
  }

  #value(steps: Steps, before: unknown, after: unknown): void {
    if (saysValue(before, after)) return
    const node = this.#document.getIn(steps, true)
    if (isFields(before) && isFields(after) && isMap(node)) this.fields(steps, { before, after })
    else if (Array.isArray(before) && Array.isArray(after) && isSeq(node)) this.#list(steps, before, after)
    else this.#replace(steps, after)
  }

  /** What is the same at both ends stays; what is between is edited one by one. */
  #list(steps: Steps, before: unknown[], after: unknown[]): void {
    const least = Math.min(before.length, after.length)
    let first = 0
    while (first < least && saysValue(before[first], after[first])) first++
    let last = 0
    while (last < least - first && saysValue(before.at(-1 - last), after.at(-1 - last))) last++
    const common = least - first - last
    for (let index = first; index < first + common; index++) this.#value([...steps, index], before[index], after[index])
    for (let index = before.length - last - 1; index >= first + common; index--) this.remove([...steps, index])
    const added = after.slice(first + common, after.length - last)
    if (added.length === 0) return
    this.#pieces = null
    const { items } = this.#document.getIn(steps, true) as { items: unknown[] }
    items.splice(first + common, 0, ...added.map((value) => this.#document.createNode(sortNames(value))))
  }

  #replace(steps: Steps, value: unknown): void {
    const old = this.#document.getIn(steps, true)
    this.#note(old, value)
    const node = this.#document.createNode(sortNames(value)) as Node
    if (isNode(old)) {
      if (old.commentBefore) node.commentBefore = old.commentBefore
      if (old.comment) node.comment = old.comment
      if (old.spaceBefore) node.spaceBefore = true
      if (isScalar(old) && isScalar(node) && typeof value === 'string' && isQuoted(old)) node.type = old.type!
    }
    this.#document.setIn(steps, node)
  }

  #note(old: unknown, value: unknown): void {
    if (this.#pieces === null) return
    const isSimple = isScalar(old) && old.range && old.anchor === undefined && old.tag === undefined
    const text = isSimple && !isFields(value) && !Array.isArray(value) ? toInline(old, value) : null
    if (text === null) this.#pieces = null
    else this.#pieces.push({ start: (old as Scalar).range![0], end: (old as Scalar).range![1], text })
  }

  #splice(pieces: { start: number; end: number; text: string }[]): string {
    return pieces
      .sort((a, b) => b.start - a.start)
      .reduce((text, piece) => `${text.slice(0, piece.start)}${piece.text}${text.slice(piece.end)}`, this.#text)
  }

  #write(): string {
    const text = this.#document.toString({ lineWidth: 0, ...styleOf(this.#text) })
    return this.#text.includes('\r\n') ? text.replace(/\r?\n/g, '\r\n') : text
  }
}

const isQuoted = ({ type }: Scalar): boolean => type === Scalar.QUOTE_DOUBLE || type === Scalar.QUOTE_SINGLE

/** Null if it takes more than a line. */
function toInline(old: Scalar, value: unknown): string | null {
  if (old.type !== Scalar.PLAIN && !isQuoted(old)) return null
  const style = isQuoted(old) ? { defaultStringType: old.type as 'QUOTE_DOUBLE' } : {}
  const text = stringify(value, { lineWidth: 0, ...style }).replace(/\n$/, '')
  return text.includes('\n') ? null : text
}

/** How the author indents. */
function styleOf(text: string): { indent: number; indentSeq: boolean; flowCollectionPadding: boolean } {
  const indent = /^( {2,8})[^\s#-]/m.exec(text)?.[1]?.length ?? 2
  return {
    indent: indent > 4 ? 2 : indent,
    // Without the flag m: its lines also end with U+2028, and one that has many of them would be read once for each.
    indentSeq: !/(?:^|\n)( *)[^\s#-][^\n]*:[ \t]*\r?\n\1- /.test(text),
    flowCollectionPadding: !/(: |- |, )[{[][^\s\]}]/.test(text),
  }
}
