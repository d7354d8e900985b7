/** What a pipeline's `config` looks like around its two sides. */

import { anyObject, closed, type DestinationConfig, type SourceConfig, text } from '../connections/endpoint-shape.ts'
import type { ColumnChoice, SyncMode, WriteMode } from '../connectors/contract.ts'
import { type Static, Type } from '../schema.ts'

/** What docs/pipelines.md says of a field. The default is text: many depend on other fields, and a config is kept as it was given. */
type About = {
  description: string
  'x-default': string
  examples: unknown[]
}
const about = (description: string, byDefault: string, example: unknown): About => ({
  description,
  'x-default': byDefault,
  examples: [example],
})
const name = text('The name of a column.')
const columnNames = (given: About) => Type.Array(name, { maxItems: 5000, ...given })

const sync = Type.Object(
  {
    mode: Type.Optional(
      Type.Enum(
        ['full_refresh', 'incremental'],
        about(
          'full_refresh reads everything, incremental what is new since the last run.',
          'full_refresh',
          'incremental',
        ),
      ),
    ),
    cursor_field: Type.Optional(
      Type.Union(
        [text('The field that grows with every change: the next run reads records with higher values.'), Type.Null()],
        about(
          'The field that grows with every change: the next run reads records with higher values. Required by incremental, unless the source keeps track of its position itself.',
          'none',
          'updated_at',
        ),
      ),
    ),
    write: Type.Optional(
      Type.Enum(
        ['append', 'replace', 'upsert'],
        about(
          'What happens to existing rows: append adds to them, replace swaps them for the new ones at the end of the run, upsert overwrites those with the same primary_key.',
          'full_refresh: replace if the destination can, else append. incremental: upsert if there is a primary_key and the destination can, else append',
          'upsert',
        ),
      ),
    ),
    primary_key: Type.Optional(
      columnNames(about('The columns that identify a record. Required by upsert.', 'none', ['id'])),
    ),
    schema_change: Type.Optional(
      Type.Enum(
        ['evolve', 'discard', 'fail'],
        about(
          'When the source has new columns or wider types: evolve changes the table, discard leaves out what does not fit, fail fails the run before anything changes.',
          'evolve',
          'fail',
        ),
      ),
    ),
    lookback_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 315_360_000,
        ...about('An incremental run reads this much again, for records that arrived late. Needs upsert.', '0', 3600),
      }),
    ),
    allow_empty: Type.Optional(
      Type.Boolean(
        about(
          'Whether a replace may empty the table. Otherwise a read without records leaves it as it is, and the run succeeds with a warning.',
          'false',
          true,
        ),
      ),
    ),
    on_error: Type.Optional(
      Type.Enum(
        ['fail', 'quarantine'],
        about(
          'When the destination refuses a record: fail fails the run, quarantine puts the record into the quarantine of the run, with the reason, and loads the rest. Not every destination can do that.',
          'fail',
          'quarantine',
        ),
      ),
    ),
    max_error_share: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: 1,
        ...about(
          'With quarantine: the run fails if a larger share of the records it read was refused. Checked with every refused record, then of at least 10,000 records, and exactly before the run is published.',
          '0.01',
          0.05,
        ),
      }),
    ),
  },
  closed,
)

const columns = Type.Object(
  {
    include: Type.Optional(
      Type.Array(name, { minItems: 1, maxItems: 5000, ...about('Only these columns.', 'all', ['id', 'email']) }),
    ),
    exclude: Type.Optional(columnNames(about('Columns to leave out.', 'none', ['notes']))),
    rename: Type.Optional(
      Type.Object(
        {},
        { additionalProperties: text('The new name.'), ...about('New names of columns.', 'none', { mail: 'email' }) },
      ),
    ),
    hash: Type.Optional(columnNames(about('Columns whose values are replaced by their SHA-256.', 'none', ['email']))),
  },
  closed,
)

const run = Type.Object(
  {
    timeout_minutes: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 525_600,
        ...about(
          'An attempt that takes longer fails. At most RUN_TIMEOUT_MINUTES, which the operator sets.',
          'RUN_TIMEOUT_MINUTES',
          60,
        ),
      }),
    ),
    max_attempts: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 100,
        ...about('The total number of attempts, if a run fails for a reason that may be temporary.', '1: no retry', 3),
      }),
    ),
    backoff_seconds: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: 86_400,
        ...about('The pause before the second attempt; it doubles with each further one.', '30', 60),
      }),
    ),
    isolation: Type.Optional(
      Type.Enum(
        ['shared', 'pod'],
        about(
          'Where the run is executed. shared: by a worker that executes other runs too. pod: by a worker that is started for it and ends with it; refused unless the operator has set POD_CLASSES.',
          'shared',
          'pod',
        ),
      ),
    ),
    resources: Type.Optional(
      Type.String({
        maxLength: 30,
        ...about(
          'With isolation pod: the class of machine, which decides on processors and memory. One of those in POD_CLASSES, which the operator sets.',
          'the first of POD_CLASSES',
          'large',
        ),
      }),
    ),
    keep_output: Type.Optional(
      Type.Boolean(
        about(
          'Whether the records are kept as the output of the run, for RUN_RETENTION_DAYS. They are stored compressed, in a quarter to an eighth of their size as a rule, and what they take counts towards ORG_STORAGE_GB; the log of the run says how much that is. false: nothing of the data stays with the service after the run but what is quarantined, and output_file is null.',
          'true',
          false,
        ),
      ),
    ),
  },
  closed,
)

/** `source` and `destination` are checked after this, by their own schemas. */
export const configFrame = Type.Object(
  {
    name: Type.Optional(
      Type.String({ maxLength: 500, ...about('A label; the pipeline has its own name.', 'none', 'Orders') }),
    ),
    source: anyObject,
    destination: anyObject,
    sync: Type.Optional(sync),
    columns: Type.Optional(columns),
    run: Type.Optional(run),
  },
  closed,
)

/** A config that passed `checkConfig`, as it was given: defaults apply at use. */
export interface PipelineConfig {
  name?: string
  source: SourceConfig
  destination: DestinationConfig
  sync?: Omit<Static<typeof sync>, 'mode' | 'write'> & { mode?: SyncMode; write?: WriteMode }
  columns?: ColumnChoice
  run?: RunOptions
}

export type RunOptions = Static<typeof run>
