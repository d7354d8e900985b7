/**
 * `$ref` and strings that begin with `#/` stand for another part of the manifest. Fields beside a `$ref` win over those of
 * its target. A part that refers to itself is an error; what references add up to is limited.
 */
import type { Json } from '../../json/json.ts'
import { type Dict, isDict } from './component.ts'
import { ManifestError } from './problems.ts'

const MOST_VALUES = 2_000_000
const MOST_DEPTH = 200

export function resolveReferences(manifest: Dict): Dict {
  return new Resolver(manifest).resolve(manifest, 0) as Dict
}

class Resolver {
  readonly #manifest: Dict
  /** References that are being resolved; one that comes up again refers to itself. */
  readonly #open = new Set<string>()
  /** Resolved targets are shared between all who refer to them: nobody changes them afterwards. */
  readonly #done = new Map<string, Json>()
  #values = 0

  constructor(manifest: Dict) {
    this.#manifest = manifest
  }

  resolve(node: Json, depth: number): Json {
    if (++this.#values > MOST_VALUES) throw new ManifestError('the references of the manifest add up to too much')
    if (depth > MOST_DEPTH) throw new ManifestError('the references of the manifest are nested too deeply')
    if (Array.isArray(node)) return this.#resolveList(node, depth)
    if (isDict(node)) return this.#resolveDict(node, depth)
    if (typeof node === 'string' && node.startsWith('#/')) return this.#resolveReference(node, depth)
    return node
  }

  /** What holds no reference stays as it is: most of a manifest are schemas. */
  #resolveDict(node: Dict, depth: number): Json {
    let copy: Dict | null = null
    for (const key in node) {
      // Settings of the source are data, even where they look like a reference.
      if (key === 'config_overrides' || key === '$ref') continue
      const value = node[key]!
      const resolved = typeof value === 'object' || typeof value === 'string' ? this.resolve(value, depth + 1) : value
      if (resolved === value) continue
      copy ??= { ...node }
      copy[key] = resolved
    }
    if (!Object.hasOwn(node, '$ref')) return copy ?? node
    const { $ref, ...fields } = copy ?? node
    const target = this.resolve($ref!, depth + 1)
    return isDict(target) ? { ...target, ...fields } : target
  }

  #resolveList(list: Json[], depth: number): Json[] {
    let copy: Json[] | null = null
    for (const [index, item] of list.entries()) {
      const resolved = this.resolve(item, depth + 1)
      if (resolved === item) continue
      copy ??= [...list]
      copy[index] = resolved
    }
    return copy ?? list
  }

  #resolveReference(reference: string, depth: number): Json {
    const done = this.#done.get(reference)
    if (done !== undefined) return done
    if (this.#open.has(reference)) throw new ManifestError(`the reference "${reference}" refers to itself`)
    this.#open.add(reference)
    const resolved = this.resolve(this.#find(reference), depth + 1)
    this.#open.delete(reference)
    this.#done.set(reference, resolved)
    return resolved
  }

  /** A key may itself hold a slash: the longest one wins at every level. */
  #find(reference: string): Json {
    let rest = reference.slice(2)
    let node: Json | undefined = this.#manifest
    while (rest !== '') {
      if (isDict(node) && Object.hasOwn(node, rest)) return node[rest]!
      const at = rest.indexOf('/')
      const head = at === -1 ? rest : rest.slice(0, at)
      rest = at === -1 ? '' : rest.slice(at + 1)
      if (Array.isArray(node) && /^\d+$/.test(head)) node = node[Number(head)]
      else node = isDict(node) && Object.hasOwn(node, head) ? node[head] : undefined
      if (node === undefined) throw new ManifestError(`the reference "${reference}" leads nowhere`)
    }
    return node ?? null
  }
}
