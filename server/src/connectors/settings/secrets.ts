/** Secrets in a config: finding them and masking them. */
import type { TSchema } from '../../schema.ts'
import { type Fields, isObject, type Node } from './settings.ts'

/** How a secret is shown to callers without write permission. Sent back, it means "keep what is stored". */
export const MASK = '********'

/** The paths of all settings marked as secret, as field names from the top. */
export function secretPaths(schema: TSchema): string[][] {
  const paths: string[][] = []
  const visit = (node: Node, path: string[]): void => {
    if (node.secret) paths.push(path)
    for (const [name, child] of Object.entries(node.properties ?? {})) visit(child, [...path, name])
    for (const member of node.anyOf ?? []) visit(member, path)
  }
  visit(schema as Node, [])
  return paths
}

/** A copy in which every secret that is set is replaced by the mask. */
export function maskSecrets(schema: TSchema, config: unknown): Fields {
  const copy = structuredClone(config ?? {}) as Fields
  for (const path of secretPaths(schema)) {
    const holder = get(copy, path.slice(0, -1))
    const name = path.at(-1)
    if (name === undefined || !isObject(holder) || holder[name] === undefined) continue
    if (holder[name] !== null && holder[name] !== '') holder[name] = MASK
  }
  return copy
}

/** The secrets that a config holds, for the redaction of logs. */
export function secretValues(schema: TSchema, config: unknown): string[] {
  return secretPaths(schema).flatMap((path) => texts(get(config, path)))
}

function texts(value: unknown): string[] {
  if (typeof value === 'string') return value === '' ? [] : [value]
  if (typeof value === 'number') return [String(value)]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(texts) : []
}

function get(value: unknown, path: readonly string[]): unknown {
  let found = value
  for (const name of path) found = isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined
  return found
}
