import { type Static, Type } from '../../../schema.ts'
import { ConnectorError, identity, overridable } from '../../contract.ts'
import { canonicalPlace, checkFolder, connectionSettings } from '../settings.ts'

const partition = Type.Object(
  {
    field: Type.String({ minLength: 1, maxLength: 200, description: 'A top-level field of the records.' }),
    unit: Type.Optional(
      Type.Union([Type.Literal('year'), Type.Literal('month'), Type.Literal('day'), Type.Literal('hour')], {
        description: 'For a date or time in ISO 8601: how much of it. Absent: the value itself.',
      }),
    ),
  },
  { additionalProperties: false },
)

export const settings = Type.Object(
  {
    ...connectionSettings,
    folder: overridable(
      Type.Optional(
        identity(
          Type.String({
            minLength: 1,
            maxLength: 400,
            description: 'The folder below the prefix that this pipeline writes to. Default: the name of the stream.',
          }),
        ),
      ),
    ),
    format: overridable(
      Type.Union([Type.Literal('jsonl'), Type.Literal('csv'), Type.Literal('parquet')], {
        default: 'jsonl',
        description: 'The format of the objects.',
      }),
    ),
    compression: overridable(
      Type.Union([Type.Literal('none'), Type.Literal('gzip'), Type.Literal('zstd')], {
        default: 'none',
        description: 'gzip and zstd compress jsonl and csv objects as a whole; inside parquet they replace snappy.',
      }),
    ),
    partition_by: overridable(
      Type.Array(partition, {
        default: [],
        maxItems: 3,
        description: 'Objects go to folders named by these fields, as in country=DE/created_at_day=2026-11-16/.',
      }),
    ),
  },
  { additionalProperties: false },
)

export type DestinationSettings = Static<typeof settings>

/** What every key of the target begins with. */
export function targetOf({ prefix, folder }: DestinationSettings, stream: string): string {
  checkFolder(prefix, 'prefix')
  const name = (folder ?? stream).replace(/^\/+|\/+$/g, '')
  checkFolder(name, folder === undefined ? 'The name of the stream' : 'folder')
  if (name === '' || /\p{C}/u.test(name) || Buffer.byteLength(name) > 400)
    throw new ConnectorError('config', `'${name.slice(0, 100)}' cannot be the name of a folder; set folder.`)
  return `${prefix}${name}/`
}

export function canonicalTarget(config: DestinationSettings, stream: string): Record<string, unknown> {
  return { ...canonicalPlace(config), folder: config.folder ?? stream }
}
