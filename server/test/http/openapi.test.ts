import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { startApp } from '../harness/app.ts'

const app = await startApp()

interface Operation {
  operationId?: string
  summary?: string
  tags?: string[]
  parameters?: { name: string; in: string; required?: boolean; schema: object }[]
  requestBody?: { content: Record<string, { schema: object }> }
  responses: Record<string, { description?: string; content?: Record<string, { schema: object }> }>
  security?: object[]
}
const document = (await app.call('GET', '/api/openapi.json')).body as {
  openapi: string
  info: { title: string; version: string }
  paths: Record<string, Record<string, Operation>>
  components: { securitySchemes: Record<string, object> }
}
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
)

test('the description is OpenAPI 3.1: each operation is named once, with its parameters and its answers', () => {
  assert.equal(document.openapi, '3.1.0')
  assert.ok(document.info.title && document.info.version)
  const names = operations.flatMap(({ operation }) => operation.operationId ?? [])
  assert.equal(new Set(names).size, names.length)
  for (const { path, method, operation } of operations) {
    const where = `${method} ${path}`
    assert.ok(operation.summary, `${where} has no summary`)
    assert.equal(operation.tags?.length, 1, `${where} has no tag`)
    const templates = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort()
    const declared = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path')
    assert.deepEqual(declared.map(({ name }) => name).sort(), templates, where)
    assert.ok(
      declared.every(({ required }) => required === true),
      where,
    )
    for (const [status, response] of Object.entries(operation.responses))
      assert.ok(response.description && response.description !== 'Default Response', `${where} ${status}`)
    assert.ok(
      Object.keys(operation.responses).some((status) => Number(status) < 400),
      `${where} says no success`,
    )
  }
})

test('every schema in it is a JSON Schema of the 2020-12 draft', () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  for (const { path, method, operation } of operations) {
    const schemas = [
      ...(operation.parameters ?? []).map(({ schema }) => schema),
      ...[operation.requestBody, ...Object.values(operation.responses)]
        .flatMap((part) => Object.values(part?.content ?? {}))
        .map(({ schema }) => schema),
    ].filter((schema) => schema !== undefined)
    for (const schema of schemas) {
      assert.ok(ajv.validateSchema(schema), `${method} ${path}: ${ajv.errorsText()}`)
      // As a keyword; a column of a stream has a field of that name.
      assert.doesNotMatch(JSON.stringify(schema), /"nullable":(true|false)/, `${method} ${path}: of OpenAPI 3.0`)
    }
  }
})

test('every route of the API is in it, and nothing else', () => {
  const listed = operations
    .filter(({ path }) => path.startsWith('/api/'))
    .map(({ method, path }) => `${method} ${path}`)
  const routes = app.app.routeList
    .filter(({ url }) => url !== '/api/openapi.json')
    .map(({ method, url }) => `${method} ${url.replace(/:(\w+)/g, '{$1}')}`)
  assert.deepEqual(listed.sort(), routes.sort())
})

test('errors are described by their one form', () => {
  for (const { path, method, operation } of operations)
    for (const [status, response] of Object.entries(operation.responses)) {
      if (Number(status) < 400 || path === '/readyz') continue
      const schema = response.content?.['application/json']?.schema as { properties?: object } | undefined
      assert.deepEqual(Object.keys(schema?.properties ?? {}), ['detail'], `${method} ${path} ${status}`)
    }
})

test('the public routes are those of the specification and no others', () => {
  const open = app.app.routeList
    .filter(({ access }) => access === 'public')
    .map(({ method, url }) => `${method} ${url}`)
  assert.deepEqual(open.sort(), PUBLIC)
  for (const { path, method, operation } of operations)
    assert.equal(
      operation.security?.length === 0,
      PUBLIC.includes(`${method} ${path.replace(/\{(\w+)\}/g, ':$1')}`) || !path.startsWith('/api/'),
      `${method} ${path}`,
    )
})
const PUBLIC = [
  'GET /api/auth/idp',
  'GET /api/auth/idp/callback',
  'GET /api/openapi.json',
  'GET /api/users/invitations/preview',
  'POST /api/auth/login',
  'POST /api/auth/refresh',
  'POST /api/auth/register',
]

test('the reference at /docs needs nothing from outside', async () => {
  const page = await app.call('GET', '/docs')
  assert.equal(page.status, 200)
  assert.match(String(page.headers['content-type']), /^text\/html/)
  const parts = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address!)
  assert.ok(parts.length >= 4, page.text)
  for (const part of parts) {
    assert.ok(!/^(https?:)?\/\//.test(part), part)
    const { status } = await app.call('GET', new URL(part, 'http://local/docs').pathname)
    assert.equal(status, 200, part)
  }
  const policy = String(page.headers['content-security-policy'])
  assert.match(policy, /default-src 'self'/)
  assert.ok(!/https?:\/\//.test(policy), policy)
})
