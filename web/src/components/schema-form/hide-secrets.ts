import { isObject, isSecret, MASK, type Schema, type Settings, withoutNull } from './schema.ts'

/**
 * Stored settings for a form. Whoever may write may also read secrets, unless the operator forbids it; a form never shows
 * them, and a mask that is sent back keeps what is stored.
 */
export function hideSecrets(schema: Schema, settings: Settings): Settings {
  return Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [name, hide(schema.properties?.[name], value)]),
  )
}

function hide(given: Schema | undefined, value: unknown): unknown {
  if (given === undefined || value === null || value === '') return value
  const schema = withoutNull(given)
  if (isSecret(schema)) return MASK
  if (!isObject(value)) return value
  const members = [schema, ...(schema.anyOf ?? schema.oneOf ?? [])]
  return members.reduce<Settings>((hidden, member) => hideSecrets(member, hidden), value)
}

/** Whether something of it is stored and hidden. */
export function hasMask(value: unknown): boolean {
  if (value === MASK) return true
  return typeof value === 'object' && value !== null && Object.values(value).some(hasMask)
}
