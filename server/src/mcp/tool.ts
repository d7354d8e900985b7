/** What a tool is; tools/ has one file per subject, and tools.ts lists all of them. */
import { type Static, type TObject, type TProperties, Type } from '../schema.ts'
import type { Ask } from './ask.ts'
import type { Limits } from './data.ts'

export interface ToolContext {
  ask: Ask
  /** Aborted when nobody waits for the answer any more. */
  signal: AbortSignal
}

export interface Tool<Input extends TObject = TObject> {
  name: string
  title: string
  description: string
  input: Input
  kind: Kind
  limits?: Limits
  run(context: ToolContext, input: Static<Input>): Promise<unknown>
}

/**
 * `reads` what the service has; `tries` also asks other systems, and may run code that was sent, but changes nothing here;
 * `runs` moves data. A read-only server has only those that read.
 */
type Kind = 'reads' | 'tries' | 'runs'

export const annotationsOf = {
  reads: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  // Code that is tried may send requests.
  tries: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  // A pipeline may replace the rows of its target.
  runs: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
} as const satisfies Record<Kind, object>

export const defineTool = <Input extends TObject>(tool: Tool<Input>): Tool => tool as unknown as Tool

export const inputOf = <Fields extends TProperties>(fields: Fields) =>
  Type.Object(fields, { additionalProperties: false })
