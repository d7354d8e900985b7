/** Which of a config's settings say what data is meant. */
import type { TSchema } from '../../schema.ts'
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

/** What people call settings that hold a secret, where no schema marks them: part of a name, or a whole word in it. */
const SECRET_NAME = /pass(word|wd|phrase)?$|secret|token|credential|api_?key|access_?key|private_?key|signature/i
const SECRET_WORDS = new Set(['pwd', 'pin', 'auth', 'authentication', 'authorization', 'dsn', 'bearer'])

/** Words begin after anything that is no letter or digit, and at a capital: `dbPwd`, `proxy-auth`, `DSN`. */
const isSecretName = (name: string): boolean =>
  SECRET_NAME.test(name) ||
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .some((word) => SECRET_WORDS.has(word))

/** Settings without a schema, such as those of custom sources, except those whose name suggests a secret. */
export function withoutSecrets(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutSecrets)
  if (!isObject(value)) return value
  const kept = Object.entries(value).filter(([name]) => !isSecretName(name))
  return Object.fromEntries(kept.map(([name, inner]) => [name, withoutSecrets(inner)]))
}
