/** The settings that a source asks for, as a form, and what of them may be kept in a draft. */
import { isSecret, type Schema, type Settings } from '../../components/schema-form/schema.ts'

/** Python has no mark for a secret, and authentication is the place for one; what is named like one is hidden all the same. */
const SECRET_NAME = /(^|_)(token|secret|password|passwd|api_?key|private_key|credentials?)($|_)/i

export function toForm(schema: Schema): Schema {
  const properties = Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const hidden = SECRET_NAME.test(name) && (property.type === 'string' || property.type === undefined)
    return [name, hidden ? { type: 'string', ...property, secret: true } : property]
  })
  return { ...schema, properties: Object.fromEntries(properties) }
}

/** How many settings it has in all, for the line below the editor. */
export function countSettings(schema: Schema | null): number {
  return Object.keys(schema?.properties ?? {}).length
}

/** Of a Python source any text may be a secret, whatever its name: only numbers and the like are kept. */
export function withoutTexts(settings: Settings): Settings {
  return Object.fromEntries(
    Object.entries(settings).filter(([, value]) => ['number', 'boolean'].includes(typeof value)),
  )
}

export function withoutSecrets(schema: Schema | null, settings: Settings): Settings {
  const properties = schema?.properties ?? {}
  return Object.fromEntries(
    Object.entries(settings).flatMap(([name, value]) => {
      const property = properties[name]
      // What no schema describes could be anything.
      if (property === undefined || isSecret(property)) return []
      const isGroup = property.properties !== undefined && typeof value === 'object' && value !== null
      if (isGroup && !Array.isArray(value)) return [[name, withoutSecrets(property, value as Settings)]]
      return typeof value === 'object' ? [] : [[name, value]]
    }),
  )
}

/** The names of required settings that are still empty. */
export function missingIn(schema: Schema | null, settings: Settings): string[] {
  const required = schema?.required ?? []
  return required.filter((name) => settings[name] === undefined && schema?.properties?.[name]?.default === undefined)
}
