/** Objects as YAML: always the same text for the same object, and always one that reads back as that object. */
import { isDeepStrictEqual } from 'node:util'
import { parse, stringify } from 'yaml'

/** What a person looks for first. All other names follow in the order of their letters. */
const FIRST = [
  'name',
  'source_name',
  'type',
  'connector_name',
  'connection',
  'stream',
  'description',
  'color',
  'language',
  'domain',
  'schedule',
  'timezone',
  'enabled',
  'source',
  'destination',
  'authentication',
  'params',
  'config',
]

export function toYaml(value: unknown, schemaUrl: string): string {
  const sorted = sortNames(value)
  const text = stringify(sorted, { lineWidth: 0, aliasDuplicateObjects: false })
  // A text that YAML would read as something else is written in quotes; if one slips through, all of them are.
  const safe = readsAs(text, sorted)
    ? text
    : stringify(sorted, {
        lineWidth: 0,
        aliasDuplicateObjects: false,
        defaultStringType: 'QUOTE_DOUBLE',
        defaultKeyType: 'QUOTE_DOUBLE',
      })
  return `# yaml-language-server: $schema=${schemaUrl}\n${safe}`
}

function readsAs(text: string, value: unknown): boolean {
  try {
    return isDeepStrictEqual(parse(text), value)
  } catch {
    return false
  }
}

export function sortNames(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortNames)
  if (typeof value !== 'object' || value === null) return value
  const names = Object.keys(value).sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : a > b ? 1 : 0))
  return Object.fromEntries(names.map((name) => [name, sortNames((value as Record<string, unknown>)[name])]))
}

const rank = (name: string): number => {
  const place = FIRST.indexOf(name)
  return place === -1 ? FIRST.length : place
}
