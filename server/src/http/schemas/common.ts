/** Pieces that many routes share. A route's schema gives its types, its validation, its serialisation and its documentation. */

import { catalogue, type ErrorCode } from '../../errors.ts'
import { type Static, type TSchema, Type } from '../../schema.ts'
import { LONGEST_NAME } from '../../tenancy/names.ts'
import { ROLES } from '../../tenancy/permissions.ts'

export const Uuid = Type.String({ format: 'uuid' })
export const Timestamp = Type.String({ format: 'date-time' })
const A_DATE = 'A date alone is its midnight in UTC'
export const Since = Type.String({ format: 'date-time', description: `From this time on. ${A_DATE}` })
export const Until = Type.String({ format: 'date-time', description: `Before this time. ${A_DATE}` })
/** As a list of types, not as anyOf: that is serialised and validated without trying one branch after the other. */
export const Nullable = <T extends TSchema>(schema: T) => {
  const { type, enum: values, ...rest } = schema as TSchema & { type?: string; enum?: unknown[] }
  return Type.Unsafe<Static<T> | null>({
    ...rest,
    ...(type && { type: [type, 'null'] }),
    ...(values && { enum: [...values, null] }),
  })
}
const patternRules = new Map<string, string>()
/** A pattern, with what it asks for in words: that is what a caller reads whose text does not fit. */
export const patternOf = (pattern: string, rule: string): string => {
  patternRules.set(pattern, rule)
  return pattern
}
export const ruleOf = (pattern: string): string => patternRules.get(pattern) ?? `must match ${pattern}`

export const NOT_BLANK = patternOf('\\S', 'must not be blank')
/** A text for people: not empty, not blank, not endless. */
export const Name = Type.String({ minLength: 1, maxLength: LONGEST_NAME, pattern: NOT_BLANK })
export const Description = Type.String({ maxLength: 2000 })
export const Email = Type.String({
  maxLength: 254,
  pattern: patternOf('^\\s*[^\\s@]+@[^\\s@.]+(\\.[^\\s@.]+)*\\s*$', 'must be an address such as ada@example.com'),
})
export const RoleName = Type.Enum([...ROLES])
export const Message = Type.Object({ message: Type.String() })
export const Problem = Type.Object({ detail: Type.String() }, { description: 'What is wrong and what to do' })
export const NoContent = Type.Null({ description: 'Done; no body' })

/** PostgreSQL takes none that is larger than 63 bits, and nothing lies behind this one. */
const Offset = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, default: 0 })

/** Paging for lists of which the specification gives a default limit. */
export const Paging = {
  limit: Type.Integer({ minimum: 1, default: 100 }),
  offset: Offset,
}
/** Paging for lists that return all unless asked otherwise. */
export const OptionalPaging = {
  limit: Type.Optional(Type.Integer({ minimum: 1 })),
  offset: Offset,
}
export const MAX_LIMIT = 1000

export const IdParams = Type.Object({ id: Uuid })

/** The error responses of a route, for its documentation. */
export const problems = (...codes: ErrorCode[]): Record<number, typeof Problem> =>
  Object.fromEntries(codes.map((code) => [catalogue[code].status, { ...Problem, description: catalogue[code].about }]))

export const ServiceVersion = Type.Object({ version: Type.String({ description: 'Such as 1.2.0' }) })

/** An object whose fields are checked elsewhere. */
export const AnyObject = (description: string) =>
  Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true, description })
