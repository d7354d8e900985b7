/**
 * Answers are written by functions that are made from the response schemas. Each is made for its first answer: most routes
 * are not used in most processes, and making all takes time and memory.
 */
import fastJson from 'fast-json-stringify'
import type { FastifySerializerCompiler } from 'fastify/types/schema.js'

export const compileSerializer: FastifySerializerCompiler<object> = ({ schema }) => {
  let serialize: ((value: unknown) => string) | undefined
  return (value) => {
    serialize ??= fastJson(schema as Parameters<typeof fastJson>[0]) as (value: unknown) => string
    return serialize(value)
  }
}
