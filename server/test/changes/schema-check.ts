/** Checks files against the schemas that editors use. */
import assert from 'node:assert/strict'
import { Ajv, type ValidateFunction } from 'ajv'
import { describeFiles, type SCHEMA_NAMES } from '../../src/changes/file-schemas.ts'
import type { Objects } from './organizations.ts'

export function compileSchemas(): Record<(typeof SCHEMA_NAMES)[number], ValidateFunction> {
  // Not strict: formats and messages are for editors.
  const ajv = new Ajv({ allErrors: true, strict: false, logger: false })
  const { pipeline, connection, source, domains } = describeFiles()
  return {
    pipeline: ajv.compile(pipeline),
    connection: ajv.compile(connection),
    source: ajv.compile(source),
    domains: ajv.compile(domains),
  }
}

let compiled: ReturnType<typeof compileSchemas> | undefined

export function checkFiles({ domains, sources, connections, pipelines }: Objects): void {
  compiled ??= compileSchemas()
  const check = (name: (typeof SCHEMA_NAMES)[number], value: unknown) =>
    assert.ok(compiled![name](value), `${JSON.stringify(compiled![name].errors)}\n${JSON.stringify(value)}`)
  check('domains', domains)
  for (const { code: _, ...source } of sources) check('source', source)
  for (const connection of connections) check('connection', connection)
  for (const pipeline of pipelines) check('pipeline', pipeline)
}
