/**
 * Placeholders in the form of Python's str.format, as dlt has them: `{resources.posts.id}`, `{incremental.start_value}`, and
 * in a path the name of a parameter. `{{` and `}}` are braces.
 */
import type { Json } from '../../json/json.ts'
import { isFields } from '../http/paths.ts'
import type { Fields, Value } from '../http/scope.ts'
import { fault } from './fault.ts'
import { walk } from './walk.ts'

/** The value that a placeholder stands for, or null if there is no such placeholder. */
export type FindPlaceholder = (name: string) => Value<Json> | null

interface Piece {
  text: string
  value: Value<Json> | null
}

/** `strict`: an unknown placeholder is a fault; otherwise it is left as it stands, as in the text of a GraphQL query. */
interface Options {
  find: FindPlaceholder
  at: string
  strict: boolean
}

export function compileText(text: string, options: Options, write: (value: Json) => string): Value<string> {
  const pieces = cut(text, options)
  if (pieces.every(({ value }) => value === null)) {
    const constant = pieces.map((piece) => piece.text).join('')
    return () => constant
  }
  return (scope) => pieces.map((piece) => piece.text + (piece.value === null ? '' : write(piece.value(scope)))).join('')
}

/** A text that is one placeholder keeps the type of its value. */
export function compileJson(value: unknown, options: Options): Value<Json> {
  if (typeof value === 'string') {
    const pieces = cut(value, options)
    const [only] = pieces
    if (pieces.length === 1 && only!.text === '' && only!.value !== null) return only!.value
    return compileText(value, options, writePlain)
  }
  if (Array.isArray(value)) {
    const items = value.map((item, index) => compileJson(item, { ...options, at: `${options.at}[${index}]` }))
    return (scope) => items.map((item) => item(scope))
  }
  if (isFields(value)) return compileFields(value, options)
  const constant = (value ?? null) as Json
  return () => constant
}

export function compileFields(value: Fields, options: Options): Value<Fields> {
  const members = Object.entries(value).map(
    ([name, inner]) =>
      [
        compileText(name, options, writePlain),
        compileJson(inner, { ...options, at: `${options.at}.${name}` }),
      ] as const,
  )
  return (scope) => Object.fromEntries(members.map(([name, inner]) => [name(scope), inner(scope)]))
}

export const writePlain = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value))

/** In a path, slashes stay: `{resources.repositories.full_name}` is often two steps. */
export const writePathPart = (value: Json): string =>
  writePlain(value)
    .split('/')
    .map((part) => encodeURIComponent(part))
    .join('/')

function cut(text: string, { find, at, strict }: Options): Piece[] {
  const pieces: Piece[] = []
  let literal = ''
  for (let index = 0; index < text.length; index++) {
    const character = text[index]!
    const doubled = text[index + 1] === character && (character === '{' || character === '}')
    if (doubled) {
      literal += character
      index++
      continue
    }
    const name = character === '{' ? nameAt(text, index) : ''
    const value = name === '' ? null : find(name)
    if (value !== null) {
      pieces.push({ text: literal, value })
      literal = ''
      index += name.length + 1
    } else if (strict && character === '{') {
      throw standsForNothing(name, at)
    } else literal += character
  }
  if (literal !== '' || pieces.length === 0) pieces.push({ text: literal, value: null })
  return pieces
}

export const standsForNothing = (name: string, at: string) =>
  fault(
    at,
    `{${name.slice(0, 100)}} stands for nothing; use {resources.<parent>.<field>}, {incremental.start_value}, or {{ for a brace`,
  )

/** Longer names are none: looking for the end of each brace in a long text would take too long. */
const LONGEST_NAME = 300

/** What stands between the brace at this place and the next closing one, or nothing. */
function nameAt(text: string, brace: number): string {
  const near = text.slice(brace + 1, brace + 2 + LONGEST_NAME)
  const end = near.indexOf('}')
  return end < 0 ? '' : near.slice(0, end)
}

/** The names of the placeholders in a text, or in the texts of a value. */
export function listPlaceholders(value: unknown): Set<string> {
  return collect(value, (text) =>
    [...text.replaceAll('{{', '').matchAll(/\{([^{}]{1,300})\}/g)].map(([, name]) => name!),
  )
}

/** The names that each have to stand for something: '' where a brace is not closed. */
export function listRequired(value: unknown): Set<string> {
  return collect(value, (text) => {
    const names: string[] = []
    for (let at = text.indexOf('{'); at >= 0; at = text.indexOf('{', at)) {
      if (text[at + 1] === '{') at += 2
      else {
        const name = nameAt(text, at)
        names.push(name)
        at += name.length + 1
      }
    }
    return names
  })
}

function collect(value: unknown, list: (text: string) => string[]): Set<string> {
  const found = new Set<string>()
  const look = (text: string): void => {
    if (text.includes('{')) for (const name of list(text)) found.add(name)
  }
  walk(value, '', (inner, name) => {
    if (name !== null) look(name)
    if (typeof inner === 'string') look(inner)
  })
  return found
}
