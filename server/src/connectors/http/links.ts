import type { Answer } from './scope.ts'

const LONGEST = 64 * 1024

/**
 * The `Link` header (RFC 8288) by relation; addresses are made absolute. Read by hand: with a pattern, a header that is
 * made for it could take very long.
 */
export function parseLinks(header: string, base: string): Answer['links'] {
  const links: Record<string, { url: string; [parameter: string]: string }> = {}
  let at = 0
  const text = header.slice(0, LONGEST)
  for (;;) {
    const open = text.indexOf('<', at)
    const close = open < 0 ? -1 : text.indexOf('>', open)
    if (close < 0) return links
    const { parameters, end } = readParameters(text, close + 1)
    at = end
    const target = text.slice(open + 1, close).trim()
    const link = { ...parameters, url: URL.parse(target, base)?.href ?? target }
    for (const relation of (parameters.rel ?? '').split(' ')) if (relation !== '') links[relation] ??= link
  }
}

/** `; rel="next"; title=x` up to the comma that ends the link. */
function readParameters(text: string, start: number): { parameters: Record<string, string>; end: number } {
  const parameters: Record<string, string> = {}
  let at = start
  while (at < text.length && text[at] !== ',') {
    if (text[at] !== ';') {
      at++
      continue
    }
    const stop = findFrom(text, at + 1, '=,;')
    const name = text
      .slice(at + 1, stop)
      .trim()
      .toLowerCase()
    if (text[stop] !== '=') {
      at = stop
      continue
    }
    const quoted = text[stop + 1] === '"'
    const end = quoted ? text.indexOf('"', stop + 2) : findFrom(text, stop + 1, ',;')
    if (end < 0) return { parameters, end: text.length }
    parameters[name] ??= text.slice(stop + (quoted ? 2 : 1), end).trim()
    at = quoted ? end + 1 : end
  }
  return { parameters, end: at }
}

function findFrom(text: string, start: number, wanted: string): number {
  let at = start
  while (at < text.length && !wanted.includes(text[at]!)) at++
  return at
}
