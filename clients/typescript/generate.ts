/** Types from the OpenAPI document. The generator needs TypeScript 5, which is installed in this folder alone. */
import openapiTS, { astToString } from 'openapi-typescript'
import ts from 'typescript'

const BLOB = ts.factory.createTypeReferenceNode('Blob')

export async function generateTypes(document: object): Promise<string> {
  const nodes = await openapiTS(JSON.stringify(document), {
    // What has a default may be left out of a request.
    defaultNonNullable: false,
    transform: (schema) => (schema.format === 'binary' ? BLOB : undefined),
  })
  return `/* Generated from docs/openapi.json by \`npm run docs\`. */\n\n${astToString(nodes)}`
}
