/** Which of a config's settings say what data is meant. */
import type { TSchema } from 'typebox'
import { type Fields, isObject, type Node } from './settings.ts'

/** The settings marked `identity` that are set, by their path. A secret is never among them. */
export function identitySettings(schema: TSchema, config: Fields): Fields {
  const found: Fields = {}
  const visit = (node: Node, value: unknown, path: string): void => {
    if (node.secret || value === undefined || value === null) return
    if (node.identity) found[path] = value
    else if (isObject(value))
      for (const [name, child] of Object.entries(node.properties ?? {})) visit(child, value[name], `${path}.${name}`)
  }
  visit(schema as Node, config, '')
  return found
}

/** What people call settings that hold a secret, where no schema marks them. */
const SECRET_NAME = /pass(word|wd|phrase)?$|secret|token|credential|api_?key|access_?key|private_?key|signature/i

/** Settings without a schema, such as those of custom sources, except those whose name suggests a secret. */
export function withoutSecrets(config: Fields): Fields {
  const kept = Object.entries(config).filter(([name]) => !SECRET_NAME.test(name))
  return Object.fromEntries(kept.map(([name, value]) => [name, isObject(value) ? withoutSecrets(value) : value]))
}
