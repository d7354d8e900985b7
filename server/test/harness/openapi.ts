/** The OpenAPI document of an application, for tests that walk its routes. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { TestApp } from './app.ts'

export interface Schema {
  $ref?: string
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  format?: string
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: boolean | Schema
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
  minimum?: number
  maximum?: number
  default?: unknown
}

export interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
  required?: boolean
  schema: Schema
}

export interface Response {
  $ref?: string
  description?: string
  content?: Record<string, { schema: Schema }>
}

export interface Operation {
  operationId?: string
  summary?: string
  tags?: string[]
  parameters?: Parameter[]
  requestBody?: { required?: boolean; content: Record<string, { schema: Schema }> }
  responses: Record<string, Response>
  security?: object[]
}

export interface Document {
  openapi: string
  info: { title: string; version: string }
  paths: Record<string, Record<string, Operation>>
  components: {
    schemas: Record<string, Schema>
    responses: Record<string, Response>
    securitySchemes: Record<string, object>
  }
}

/** With the responses that operations refer to put in their places. */
export async function readDocument(app: TestApp): Promise<Document> {
  const document = (await app.call('GET', '/api/openapi.json')).body as Document
  for (const { responses } of listOperations(document).map(({ operation }) => operation))
    for (const [status, { $ref }] of Object.entries(responses))
      if ($ref) responses[status] = document.components.responses[$ref.replace('#/components/responses/', '')]!
  return document
}

export const listOperations = ({ paths }: Document) =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )

/** What a `$ref` of the document means; any other schema is itself. */
export const resolveIn =
  ({ components }: Document) =>
  (schema: Schema): Schema =>
    schema.$ref === undefined ? schema : components.schemas[schema.$ref.replace('#/components/schemas/', '')]!

/** Says what is wrong with a value, or null. Formats count: times and ids are texts of a certain form. */
export function createChecker(document: Document): (schema: Schema, value: unknown) => string | null {
  const ajv = new Ajv2020({ strict: false, discriminator: false, allErrors: false })
  ajv.addFormat('uuid', /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/)
  ajv.addFormat('date-time', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/)
  for (const format of ['password', 'binary', 'uri']) ajv.addFormat(format, true)
  ajv.addSchema({ $id: 'document', components: document.components })
  const compiled = new Map<string, ReturnType<typeof ajv.compile>>()
  return (schema, value) => {
    const key = JSON.stringify(schema)
    const text = key.replaceAll('"#/components/', '"document#/components/')
    const validate = compiled.get(key) ?? ajv.compile(JSON.parse(text) as object)
    compiled.set(key, validate)
    return validate(value) ? null : ajv.errorsText(validate.errors)
  }
}
