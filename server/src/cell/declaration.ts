/** A custom source as the rest of the product sees it, derived from its code without running it. */

import { authenticationTypes } from '../connectors/authentication/authentication.ts'
import type { Source } from '../connectors/contract.ts'
import { Type } from '../schema.ts'

export interface CustomSourceOptions {
  source_name: string
  display_name: string
  description: string
  code: string
  streams: readonly string[]
}

/** The only stream entry of a source that has to ask a server for its streams. */
export const DYNAMIC_STREAMS = 'dynamic'

const settings = Type.Object({}, { additionalProperties: true })
export type CustomSettings = typeof settings

export type SourceDeclaration = Omit<Source<CustomSettings>, 'check' | 'listStreams' | 'describe' | 'read'>

export function declareSource(options: CustomSourceOptions): SourceDeclaration {
  const resumable = mentionsState(options.code)
  return {
    kind: 'source',
    name: options.source_name,
    display_name: options.display_name,
    description: options.description,
    streams: options.streams.includes(DYNAMIC_STREAMS) ? 'dynamic' : options.streams,
    auth_types: Object.keys(authenticationTypes),
    settings,
    capabilities: { incremental: resumable, resumable, columns: false, encodings: ['ndjson'] },
    example_config: {
      name: options.source_name,
      stream: options.streams[0] ?? 'stream',
      authentication: { type: 'none', params: {} },
      config: {},
    },
    notes: '',
  }
}

/** False if in doubt: a source wrongly considered resumable would resume from nowhere. */
function mentionsState(code: string): boolean {
  return /\bself\s*\.\s*state\b/.test(code.replace(/#.*$/gm, ''))
}
