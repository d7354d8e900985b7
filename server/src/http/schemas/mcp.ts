import { Type } from '../../schema.ts'
import { AnyObject } from './common.ts'

/** Of JSON-RPC, one at a time. */
export const McpMessage = Type.Object(
  {
    jsonrpc: Type.Literal('2.0'),
    id: Type.Optional(Type.Union([Type.String({ maxLength: 200 }), Type.Number()])),
    method: Type.String({ maxLength: 200 }),
    params: Type.Optional(AnyObject('What the method needs')),
  },
  { additionalProperties: false },
)

export const McpQuery = Type.Object(
  { read_only: Type.Boolean({ default: false, description: 'Only tools that read' }) },
  { additionalProperties: false },
)
