/**
 * The answers of an object store are small, flat XML with known tags, so they need no parser, and none is wanted: the server
 * may be anybody's. Text is searched in one pass, declarations are ignored, and only the five predefined entities and
 * character references are decoded, so nothing can be defined, expanded or included.
 */
import type { Readable } from 'node:stream'

/** The text of the first element with this name, or null. */
export function readTag(xml: string, tag: string): string | null {
  const open = xml.indexOf(`<${tag}>`)
  if (open === -1) return null
  const start = open + tag.length + 2
  const end = xml.indexOf('<', start)
  return end !== -1 && xml.startsWith(`</${tag}>`, end) ? unescapeXml(xml.slice(start, end)) : null
}

/** The content of every element with this name, in order. One that is not closed ends the search. */
export function readBlocks(xml: string, tag: string): string[] {
  const blocks: string[] = []
  for (let open = xml.indexOf(`<${tag}>`); open !== -1; ) {
    const start = open + tag.length + 2
    const end = xml.indexOf(`</${tag}>`, start)
    if (end === -1) break
    blocks.push(xml.slice(start, end))
    open = xml.indexOf(`<${tag}>`, end)
  }
  return blocks
}

/** Whether this is the document that was asked for, complete. */
export function isDocument(xml: string, root: string): boolean {
  return new RegExp(`<${root}[\\s>]`).test(xml.slice(0, 1000)) && xml.trimEnd().endsWith(`</${root}>`)
}

const entities: Record<string, string> = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' }
const LAST_CHARACTER = 0x10ffff

function unescapeXml(text: string): string {
  if (!text.includes('&')) return text
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z]{2,4}));/gi, (whole, hex, decimal, name) => {
    if (name !== undefined) return entities[name] ?? whole
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16)
    return code <= LAST_CHARACTER ? String.fromCodePoint(code) : whole
  })
}

export function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}

export class AnswerTooLarge extends Error {}

/** The text of an answer that should be short. */
export async function readText(body: Readable, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes) {
      body.destroy()
      throw new AnswerTooLarge(`The object store sent more than ${maxBytes} bytes where a short answer was expected.`)
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
