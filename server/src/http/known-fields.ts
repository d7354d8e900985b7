/**
 * Bodies and queries hold only what their route declares: a misspelled field that is ignored changes nothing and nobody
 * notices. Every object of a route's own schemas is closed here, where the route is added, so that no route can forget it
 * and the reference says the same. Objects without declared fields (settings of connectors, cursors) stay open.
 */
import type { FastifySchemaValidationError } from 'fastify'
import type { App } from './app-type.ts'

export interface Shape {
  type?: string | string[]
  properties?: Record<string, Shape>
  additionalProperties?: unknown
  items?: Shape
  anyOf?: Shape[]
}

/** The body of a route that declares none: it may be absent or empty. It is not part of the reference. */
export const NO_FIELDS: Shape = { type: ['object', 'null'], properties: {}, additionalProperties: false }
const NO_PARAMETERS: Shape = { type: 'object', properties: {}, additionalProperties: false }

export function closeSchemas(app: App): void {
  app.addHook('onRoute', (route) => {
    if (!route.url.startsWith('/api/')) return
    const { body, querystring, ...rest } = (route.schema ?? {}) as { body?: Shape; querystring?: Shape }
    const takesBody = ![route.method].flat().some((method) => method === 'GET' || method === 'HEAD')
    route.schema = {
      ...rest,
      ...(takesBody && { body: body ? close(body) : NO_FIELDS }),
      ...(route.config?.anyAddress
        ? { querystring }
        : { querystring: querystring ? close(querystring) : NO_PARAMETERS }),
    }
  })
}

/** A copy: the same schema may also describe an answer. */
function close(schema: Shape): Shape {
  const { properties, items, anyOf, additionalProperties } = schema
  return {
    ...schema,
    ...(properties && {
      properties: Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, close(inner)])),
      additionalProperties: additionalProperties ?? false,
    }),
    ...(items && { items: close(items) }),
    ...(anyOf && { anyOf: anyOf.map(close) }),
  }
}

/**
 * The first field that its closed schema does not name. Looked for before anything else is validated, because "name is
 * required" hides that `nmae` was sent.
 */
export function findUnknownField(schema: Shape, value: unknown, path = ''): FastifySchemaValidationError | null {
  if (typeof value !== 'object' || value === null) return null
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const found = schema.items && findUnknownField(schema.items, item, `${path}/${index}`)
      if (found) return found
    }
    return null
  }
  const { properties } = schema
  if (!properties) return null
  for (const [name, inner] of Object.entries(value)) {
    if (Object.hasOwn(properties, name)) {
      const found = findUnknownField(properties[name]!, inner, `${path}/${name}`)
      if (found) return found
    } else if (schema.additionalProperties === false)
      return {
        keyword: 'additionalProperties',
        instancePath: path,
        schemaPath: '',
        params: { additionalProperty: name, known: Object.keys(properties) },
      }
  }
  return null
}
