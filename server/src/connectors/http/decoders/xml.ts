/**
 * XML as JSON, in the usual way: an element is an object, attributes have `@` before their name, text beside either is
 * `#text`, an element with text only is that text, repeated elements are an array. No document types: an entity that an
 * author defines can be made to grow without end.
 */
import type { Json } from '../../../json/json.ts'
import { MalformedJson } from '../../../json/malformed.ts'
import type { Fields } from '../scope.ts'

const DEEPEST = 64
const NAMED: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" }

interface Element {
  name: string
  fields: Fields
  text: string
}

export function parseXml(source: string): Json {
  const root: Element = { name: '', fields: {}, text: '' }
  const open: Element[] = [root]
  let at = source.startsWith('\ufeff') ? 1 : 0
  while (at < source.length) {
    const tag = source.indexOf('<', at)
    open.at(-1)!.text += unescapeXml(source.slice(at, tag < 0 ? source.length : tag))
    if (tag < 0) break
    at = readMarkup(source, tag, open)
  }
  if (open.length > 1) throw new MalformedJson(`the XML element ${open.at(-1)!.name} is not closed`)
  return root.fields
}

/** What starts with `<`; returns the offset after it. */
function readMarkup(source: string, at: number, open: Element[]): number {
  if (source.startsWith('<!--', at)) return after(source, '-->', at)
  if (source.startsWith('<?', at)) return after(source, '?>', at)
  if (source.startsWith('<![CDATA[', at)) {
    const end = after(source, ']]>', at)
    open.at(-1)!.text += source.slice(at + 9, end - 3)
    return end
  }
  if (source.startsWith('<!', at)) throw new MalformedJson('XML with a document type is not read')
  if (source.startsWith('</', at)) {
    const end = after(source, '>', at)
    const closed = open.pop()!
    if (open.length === 0 || closed.name !== source.slice(at + 2, end - 1).trim())
      throw new MalformedJson('an XML element is closed that is not open')
    addChild(open.at(-1)!, closed)
    return end
  }
  return readStart(source, at, open)
}

function readStart(source: string, start: number, open: Element[]): number {
  const end = endOfTag(source, start)
  const empty = source[end - 2] === '/'
  const inside = source.slice(start + 1, end - (empty ? 2 : 1))
  const space = inside.search(/\s/)
  const element = { name: space < 0 ? inside : inside.slice(0, space), fields: {}, text: '' }
  if (space >= 0) readAttributes(inside.slice(space), element.fields)
  if (empty) addChild(open.at(-1)!, element)
  else if (open.push(element) > DEEPEST) throw new MalformedJson(`XML is nested deeper than ${DEEPEST} levels`)
  return end
}

/** A `>` in quotes is part of an attribute. */
function endOfTag(source: string, start: number): number {
  let quote = ''
  for (let at = start + 1; at < source.length; at++) {
    const character = source[at]!
    if (quote !== '') quote = character === quote ? '' : quote
    else if (character === '"' || character === "'") quote = character
    else if (character === '>') return at + 1
  }
  throw new MalformedJson('an XML tag is not closed')
}

function readAttributes(text: string, fields: Fields): void {
  let at = 0
  for (;;) {
    const equals = text.indexOf('=', at)
    if (equals < 0) return
    const name = text.slice(at, equals).trim()
    let from = equals + 1
    while (text[from] === ' ') from++
    const end = text.indexOf(text[from] ?? '"', from + 1)
    if (name === '' || end < 0) throw new MalformedJson('an XML attribute has no value')
    fields[`@${name}`] = unescapeXml(text.slice(from + 1, end))
    at = end + 1
  }
}

function addChild(parent: Element, { name, fields, text }: Element): void {
  const trimmed = text.trim()
  const plain = Object.keys(fields).length === 0
  const value: Json = plain
    ? trimmed === ''
      ? null
      : trimmed
    : trimmed === ''
      ? fields
      : { ...fields, '#text': trimmed }
  const known = Object.hasOwn(parent.fields, name) ? parent.fields[name] : undefined
  if (known === undefined) parent.fields[name] = value
  else if (Array.isArray(known)) known.push(value)
  else parent.fields[name] = [known, value]
}

function unescapeXml(text: string): string {
  if (!text.includes('&')) return text
  return text.replace(/&(#x?[0-9a-fA-F]{1,6}|[a-z]{2,4});/g, (whole, name: string) => {
    if (!name.startsWith('#')) return NAMED[name] ?? whole
    const code = name[1] === 'x' ? Number.parseInt(name.slice(2), 16) : Number.parseInt(name.slice(1), 10)
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole
  })
}

function after(source: string, what: string, from: number): number {
  const at = source.indexOf(what, from)
  if (at < 0) throw new MalformedJson(`XML ends before ${what}`)
  return at + what.length
}
