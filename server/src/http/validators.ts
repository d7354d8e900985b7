/**
 * Validation. Bodies are taken as they are: nothing is coerced, dropped or filled in. Query strings and paths are text
 * by nature, so there numbers and booleans are read from it.
 */
import { Ajv, type Options } from 'ajv'
import addFormats from 'ajv-formats'
import type { FastifyRouteSchemaDef, FastifyValidationResult } from 'fastify/types/schema.js'

const common: Options = { strict: false, allErrors: false, removeAdditional: false, ownProperties: true }
const formats = ['uuid', 'date-time', 'email', 'uri'] as const

let strictAjv: Ajv | undefined
let textAjv: Ajv | undefined

const make = (options: Options): Ajv => {
  const ajv = new Ajv({ ...common, ...options })
  ;(addFormats as unknown as (ajv: Ajv, formats: readonly string[]) => void)(ajv, formats)
  return ajv
}

export function compileValidator({ schema, httpPart }: FastifyRouteSchemaDef<object>): FastifyValidationResult {
  if (httpPart === 'body') {
    strictAjv ??= make({ coerceTypes: false, useDefaults: false })
    return strictAjv.compile(schema) as unknown as FastifyValidationResult
  }
  textAjv ??= make({ coerceTypes: true, useDefaults: true })
  return textAjv.compile(schema) as unknown as FastifyValidationResult
}
