import { type Static, Type } from '../../../schema.ts'
import { identity, overridable } from '../../contract.ts'
import { connectionSettings } from '../settings.ts'

export const settings = Type.Object(
  {
    ...connectionSettings,
    glob: overridable(
      identity(
        Type.String({
          default: '**',
          minLength: 1,
          maxLength: 500,
          description:
            'Which objects of the stream are read, by their names in its folder: *.csv, 2026-*/**, **/*.{csv,csv.gz}. Default: all.',
        }),
      ),
    ),
    format: overridable(
      Type.Union(
        [
          Type.Literal('auto'),
          Type.Literal('jsonl'),
          Type.Literal('json'),
          Type.Literal('csv'),
          Type.Literal('parquet'),
        ],
        {
          default: 'auto',
          description: 'auto: detected for each object, from its name, then from its first bytes.',
        },
      ),
    ),
    delimiter: overridable(
      Type.Optional(
        Type.String({ minLength: 1, maxLength: 1, description: 'The delimiter of CSVs. Default: detected.' }),
      ),
    ),
    header: overridable(
      Type.Boolean({
        default: true,
        description: 'Whether the first line of a CSV names its columns. If not, they are column0, column1 and so on.',
      }),
    ),
    late_hours: overridable(
      Type.Integer({
        default: 168,
        minimum: 1,
        maximum: 8760,
        description:
          'Incremental reads: how much older than the newest object one may be when it appears in the listing, and still be read.',
      }),
    ),
  },
  { additionalProperties: false },
)

export type SourceSettings = Static<typeof settings>
