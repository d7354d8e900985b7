/**
 * Schemas of configs as files hold them: any value may be a reference, which an editor cannot look up. A text may contain one,
 * another value may be one as a whole, read as JSON.
 */
import type { JsonSchema } from '../pipelines/config-schema.ts'

/** The text contains a reference, or `$${`. */
const IN_TEXT = '\\$\\{'
const AS_JSON = '^\\$\\{[A-Za-z_][A-Za-z0-9_]*:json\\}$'

/**
 * Kept flat, because editors and validators report every branch of a choice: keywords for numbers, arrays and objects do not
 * concern texts, so that one more type and a pattern are enough.
 */
export function allowReferences(schema: JsonSchema): JsonSchema {
  const { type, pattern } = schema
  const inner = withReferencesInside(schema)
  if (schema.$ref !== undefined || schema.const !== undefined) return inner
  if (schema.enum !== undefined) return allowInChoice(inner)
  if (schema.anyOf !== undefined && type === undefined) return allowInUnion(inner)
  if (type === 'string') {
    // How long the text is that a reference stands for is not known here.
    const { maxLength: _, format, ...rest } = inner
    return {
      ...rest,
      ...(format === 'password' && { format }),
      ...(pattern !== undefined && { pattern: `(?:${String(pattern)})|${IN_TEXT}` }),
    }
  }
  if (typeof type !== 'string' || type === 'null') return inner
  return {
    ...inner,
    type: [type, 'string'],
    pattern: AS_JSON,
    patternErrorMessage: `Must be ${NAMES[type] ?? type}, or a reference to one such as \${NAME:json}.`,
  }
}

const NAMES: Record<string, string> = {
  integer: 'an integer',
  number: 'a number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a map',
}

function allowInChoice({ enum: choices, type, ...about }: JsonSchema): JsonSchema {
  return {
    ...about,
    anyOf: [
      { ...(type !== undefined && { type }), enum: choices },
      { type: 'string', pattern: IN_TEXT },
    ],
  }
}

/** The members stay as they are, and one is added, unless a text is allowed anyway. */
function allowInUnion({ anyOf, ...about }: JsonSchema): JsonSchema {
  const members = anyOf as JsonSchema[]
  const texts = members.filter((member) => member.type === 'string')
  return {
    ...about,
    anyOf: [
      ...members.map((member) => (member.type === 'string' ? allowReferences(member) : member)),
      ...(texts.length > 0 ? [] : [{ type: 'string', pattern: AS_JSON }]),
    ],
  }
}

/** Without keywords that only forms and the API reference know. */
function withReferencesInside(schema: JsonSchema): JsonSchema {
  const { identity, cases, either, discriminator, 'x-default': _, ...rest } = schema
  const { properties, additionalProperties, items, anyOf } = rest as {
    properties?: Record<string, JsonSchema>
    additionalProperties?: JsonSchema | boolean
    items?: JsonSchema
    anyOf?: JsonSchema[]
  }
  return {
    ...rest,
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, property]) => [name, allowReferences(property)]),
      ),
    }),
    ...(typeof additionalProperties === 'object' && { additionalProperties: allowReferences(additionalProperties) }),
    ...(items && { items: allowReferences(items) }),
    ...(anyOf && { anyOf: anyOf.map(withReferencesInside) }),
  }
}
