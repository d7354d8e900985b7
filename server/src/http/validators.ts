/**
 * Validation. Bodies are taken as they are: nothing is coerced, dropped or filled in. Query strings and paths are text
 * by nature, so there numbers and booleans are read from it.
 */
import { Ajv, type Options } from 'ajv'
import addFormats from 'ajv-formats'
import type { FastifyRouteSchemaDef, FastifyValidationResult } from 'fastify/types/schema.js'
import { findUnknownField, type Shape } from './known-fields.ts'

const common: Options = { strict: false, allErrors: false, removeAdditional: false, ownProperties: true }
const formats = ['email', 'uri'] as const

const make = (options: Options): Ajv => {
  const ajv = new Ajv({ ...common, ...options })
  ;(addFormats as unknown as (ajv: Ajv, formats: readonly string[]) => void)(ajv, formats)
  // Theirs also take `urn:uuid:…`, and times that PostgreSQL does not know.
  ajv.addFormat('uuid', /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i)
  ajv.addFormat('date-time', isTimestamp)
  return ajv
}

const once = (options: Options): (() => Ajv) => {
  let ajv: Ajv | undefined
  return () => {
    ajv ??= make(options)
    return ajv
  }
}
const strict = once({ coerceTypes: false, useDefaults: false })
const text = once({ coerceTypes: true, useDefaults: true })

/** Compiled at the first request: most routes are not used in most processes, and compiling all takes time and memory. */
function compileLazily(schema: object, ajv: () => Ajv): FastifyValidationResult {
  let validate: FastifyValidationResult | undefined
  const check: FastifyValidationResult = (value: unknown) => {
    validate ??= ajv().compile(schema) as unknown as FastifyValidationResult
    const valid = validate(value)
    check.errors = validate.errors ?? null
    return valid
  }
  return check
}

const RFC3339 = /^(\d{4}-\d\d-\d\d)([T ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-](0\d|1[0-5])(:?[0-5]\d)?))?$/i

/**
 * A time of RFC 3339 that PostgreSQL reads too: on a day of the calendar, from the year 1 on, without leap seconds, and
 * less than 16 hours from UTC. A date alone is its midnight in UTC: our sessions are in that zone.
 */
function isTimestamp(text: string): boolean {
  const day = RFC3339.exec(text)?.[1]
  if (day === undefined || day.startsWith('0000')) return false
  // Date takes 30 February for 1 March.
  return new Date(`${day}T00:00:00Z`).toJSON()?.startsWith(day) ?? false
}

export function compileValidator({ schema, httpPart }: FastifyRouteSchemaDef<object>): FastifyValidationResult {
  if (httpPart === 'body') return withKnownFields(schema, compileLazily(schema, strict))
  const validate = compileLazily(schema, text)
  const booleans = namesOf(schema, 'boolean')
  const integers = namesOf(schema, 'integer')
  if (httpPart !== 'params' && booleans.length + integers.length === 0) return withKnownFields(schema, validate)
  const check: FastifyValidationResult = (values: Record<string, string | number>) => {
    if (httpPart === 'params') lowerIds(values as Record<string, string>)
    // What reads the numbers would also take 0x10, 1e2, 1.0 and blanks around one.
    for (const name of integers)
      if (values[name] !== undefined && !/^-?\d+$/.test(String(values[name]))) values[name] = Number.NaN
    // Python writes `True`: what a client makes of its own value of that kind is taken in any case of letters.
    for (const name of booleans)
      if (/^(true|false)$/i.test(String(values[name]))) values[name] = String(values[name]).toLowerCase()
    const valid = validate(values)
    check.errors = validate.errors ?? null
    return valid
  }
  return withKnownFields(schema, check)
}

/** Unknown fields are told first; see known-fields.ts. */
function withKnownFields(schema: Shape, validate: FastifyValidationResult): FastifyValidationResult {
  const check: FastifyValidationResult = (value: unknown) => {
    const unknown = findUnknownField(schema, value)
    if (unknown) check.errors = [unknown]
    const valid = unknown === null && validate(value)
    if (!unknown) check.errors = validate.errors ?? null
    return valid
  }
  return check
}

const namesOf = (schema: { properties?: Record<string, { type?: unknown }> }, wanted: string): string[] =>
  Object.entries(schema.properties ?? {}).flatMap(([name, { type }]) => (type === wanted ? [name] : []))

/** An id may come in capitals; ours are compared as text and are in small letters. */
function lowerIds(params: Record<string, string>): void {
  for (const [name, value] of Object.entries(params))
    if (/^[0-9A-Fa-f-]{36}$/.test(value)) params[name] = value.toLowerCase()
}
