/**
 * The source `manifest`: a declarative manifest, in the settings or saved, with its own settings. What runs manifests is a
 * third of what all connectors together would load; executors load it once they are up, others not at all.
 */

import type { Json } from '../../json/json.ts'
import { Type } from '../../schema.ts'
import { identity, type Source, secret } from '../contract.ts'
import { checkStreamState } from '../http/read-stream.ts'
import { exampleConfig, notes } from './notes.ts'
import type { Opened } from './operations.ts'

const settings = Type.Object(
  {
    manifest: identity(
      Type.String({ minLength: 1, contentMediaType: 'application/yaml', description: 'The manifest, as YAML' }),
    ),
    settings: Type.Optional(
      secret(
        Type.Unsafe<Record<string, Json>>({
          type: 'object',
          additionalProperties: true,
          description: "What the manifest's `spec.connection_specification` asks for",
        }),
      ),
    ),
  },
  { additionalProperties: false },
)

type Opener<Settings> = (config: Settings) => Opened

const capabilities = {
  incremental: true,
  own_cursor: true,
  resumable: true,
  columns: false,
  encodings: ['ndjson'],
  ranges: true,
} as const

export const manifestSource: Source<typeof settings> = {
  kind: 'source',
  name: 'manifest',
  display_name: 'Airbyte manifest',
  description: "An HTTP API described by a declarative YAML manifest of Airbyte's low-code framework, run as it is.",
  streams: 'dynamic',
  auth_types: [],
  settings,
  capabilities,
  example_config: exampleConfig,
  notes,
  ...operationsOf<{ manifest: string; settings?: Record<string, Json> }>((config) => ({
    manifest: config.manifest,
    settings: config.settings ?? {},
    root: ['settings'],
  })),
}

const open = Type.Object({}, { additionalProperties: true })

/** A saved manifest, used by its name; its settings are those of the manifest. */
export function savedManifest(name: string, manifest: string): Source<typeof open> {
  const { example_config: _, ...declared } = manifestSource
  return {
    ...declared,
    name,
    display_name: name,
    description: '',
    settings: open,
    example_config: { name, stream: 'stream', config: {} },
    ...operationsOf<object>((config) => ({ manifest, settings: config as Record<string, Json>, root: [] })),
  }
}

/** Loads what runs a manifest. */
export const loadOperations = () => import('./operations.ts')

function operationsOf<Settings extends object>(
  opener: Opener<Settings>,
): Pick<Source<never>, 'check' | 'listStreams' | 'describe' | 'read' | 'checkState'> {
  const opened = ({ config }: { config: object }): Opened => opener(config as Settings)
  return {
    check: async (context) => (await loadOperations()).check(opened(context), context),
    listStreams: async (context) => (await loadOperations()).listStreams(opened(context), context),
    describe: async (context, streams) => (await loadOperations()).describe(opened(context), context, streams),
    checkState: checkStreamState,
    read: async (context) => (await loadOperations()).read(opened(context), context),
  }
}
