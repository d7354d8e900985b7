/**
 * Globs for names with slashes: `*` is anything within a segment, `?` one character of it, `**` anything, `{a,b}` one of
 * several. Matched by following all possibilities at once, so no pattern takes more than its length times that of the name.
 */
import { ConnectorError } from '../contract.ts'

export type Glob = (name: string) => boolean

/** `**` and a slash stands for any number of folders, also none. */
type Token = { kind: 'text'; text: string } | { kind: 'one' | 'segment' | 'all' | 'folders' }

const MOST_ALTERNATIVES = 100

export function compileGlob(pattern: string): Glob {
  const alternatives = expandBraces(pattern).map(readTokens)
  return (name) => alternatives.some((tokens) => matches(tokens, name))
}

function expandBraces(pattern: string): string[] {
  const done: string[] = []
  const open = [pattern]
  for (let text = open.pop(); text !== undefined; text = open.pop()) {
    // The innermost group, so that groups may nest.
    const match = /\{([^{}]*,[^{}]*)\}/.exec(text)
    if (match) for (const choice of match[1]!.split(',')) open.push(text.replace(match[0], () => choice))
    else done.push(text)
    if (done.length + open.length > MOST_ALTERNATIVES)
      throw new ConnectorError('config', `The glob '${pattern}' stands for more than ${MOST_ALTERNATIVES} patterns.`)
  }
  return done
}

function readTokens(pattern: string): Token[] {
  return [...pattern.matchAll(/(?<=^|\/)\*\*\/|\*\*|\*|\?|[^*?]/gsu)].map(([text]): Token => {
    if (text === '**/') return { kind: 'folders' }
    if (text === '**') return { kind: 'all' }
    if (text === '*') return { kind: 'segment' }
    return text === '?' ? { kind: 'one' } : { kind: 'text', text }
  })
}

function matches(tokens: readonly Token[], name: string): boolean {
  let places = skipEmpty(tokens, new Set([0]))
  let before = '/'
  for (const character of name) {
    const next = new Set<number>()
    for (const place of places) {
      const token = tokens[place]
      if (token === undefined) continue
      if (token.kind === 'text') {
        if (token.text === character) next.add(place + 1)
      } else if (token.kind === 'one') {
        if (character !== '/') next.add(place + 1)
      } else if (token.kind === 'segment') {
        if (character !== '/') next.add(place)
      } else if (token.kind === 'all') next.add(place)
      else {
        next.add(place)
        if (character === '/') next.add(place + 1)
      }
    }
    before = character
    places = skipEmpty(tokens, next, before)
  }
  return places.has(tokens.length)
}

/** Tokens that may stand for nothing. Folders only do so where a segment begins. */
function skipEmpty(tokens: readonly Token[], places: Set<number>, before = '/'): Set<number> {
  for (const place of places) {
    const kind = tokens[place]?.kind
    if (kind === 'segment' || kind === 'all' || (kind === 'folders' && before === '/')) places.add(place + 1)
  }
  return places
}
