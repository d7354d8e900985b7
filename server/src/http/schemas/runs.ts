import { LOG_LEVELS } from '../../runs/log-search.ts'
import { RUN_STATUSES } from '../../runs/states.ts'
import { type TSchema, Type } from '../../schema.ts'
import { ListOf } from '../total-count.ts'
import { AnyObject, Nullable, Paging, Since, Timestamp, Until, Uuid } from './common.ts'

export const RunStatusName = Type.Enum([...RUN_STATUSES])

export const TriggeredRun = Type.Object({
  id: Uuid,
  pipeline_id: Uuid,
  status: RunStatusName,
  triggered_by: Type.String(),
  created_at: Timestamp,
})

const CursorValue = (description: string) =>
  Type.Union([Type.String({ minLength: 1, maxLength: 1024 }), Type.Number()], { description })

export const Backfill = Type.Object({
  from: CursorValue('The first value of the cursor that is read, as the source writes it: a time, a date, a number'),
  to: CursorValue('The range ends right before this value'),
})

export const Replay = Nullable(
  Type.Object({
    destination: Type.Optional(
      AnyObject('Load into this destination instead: `name` and `config`, or `saved_connector_id`'),
    ),
  }),
)

const listed = {
  id: Uuid,
  pipeline_id: Uuid,
  status: RunStatusName,
  triggered_by: Type.String(),
  started_at: Nullable(Timestamp),
  finished_at: Nullable(Timestamp),
  error: Nullable(Type.String()),
  created_at: Timestamp,
}
const records_written = Type.Integer({
  description:
    'Records passed to the destination that it did not refuse; 0 once the run has failed and left nothing there',
})
export const RunItem = Type.Object(listed)
export const RunOfOrganization = Type.Object({
  ...listed,
  records_written,
  pipeline_name: Type.String(),
  domain_id: Nullable(Uuid),
})
export const RunDetail = Type.Object({
  ...listed,
  output_file: Nullable(Type.String({ description: 'Path of the output in the blob store' })),
  output_file_size: Nullable(Type.Integer()),
  attempt: Type.Integer(),
  source_version: Nullable(Type.Integer({ description: 'Version of the custom source that was used' })),
  records_read: Type.Integer(),
  records_written,
  bytes_written: Type.Integer(),
  records_quarantined: Type.Integer({ description: 'Records that the destination refused (config.sync.on_error)' }),
  waiting: Nullable(Type.String({ description: 'What a pending run waits for, in a sentence' })),
})

export const RunConfig = Type.Object({
  config: Type.Unsafe<Record<string, unknown> | null>({
    type: ['object', 'null'],
    additionalProperties: true,
    description:
      'source, destination, sync, columns and run, with defaults applied to sync. Of a replay also `replays`, the id of the run whose output it loads, and `other_destination` if that is not where the pipeline writes. Null: it could not be resolved',
  }),
  problem: Nullable(Type.String({ description: 'Why it could not be resolved' })),
})

export const PipelineActivity = Type.Object({
  pipeline_id: Uuid,
  next_run_at: Nullable(Timestamp),
  last_success_at: Nullable(Timestamp),
  runs: Type.Array(
    Type.Object({
      id: Uuid,
      status: RunStatusName,
      created_at: Timestamp,
      started_at: Nullable(Timestamp),
      finished_at: Nullable(Timestamp),
      records_written: Type.Integer(),
    }),
    { description: 'Newest first' },
  ),
})

const UUID = '[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}'
export const ActivityQuery = Type.Object({
  ids: Type.String({
    pattern: `^${UUID}(?:,${UUID}){0,99}$`,
    description: 'Up to 100 ids of pipelines with commas between them. Those that you may not see are left out',
  }),
  runs: Type.Integer({
    minimum: 1,
    maximum: 1000,
    default: 20,
    description: 'How many runs of each pipeline; up to 2000 of all together',
  }),
})

export const RunParams = Type.Object({ run_id: Uuid })
const include_counts = Type.Boolean({
  default: false,
  description: 'Also count the runs of each status, in the header X-Status-Counts',
})
/** Beside the list, which stays a plain array. */
export const ListOfRuns = <T extends TSchema>(item: T) => {
  const list = ListOf(item)
  const headers = {
    ...list.headers,
    'X-Status-Counts': {
      type: 'string',
      description:
        'With include_counts: a JSON object with the number of runs of each status, each counted to 10000 at most. All filters apply but that of the status',
    },
  }
  return Object.assign(list, { headers })
}
export const RunsQuery = Type.Object({
  ...Paging,
  status: Type.Optional(Type.String({ maxLength: 20 })),
  include_counts,
})
export const AllRunsQuery = Type.Object({
  ...Paging,
  before: Type.Optional(Type.String({ format: 'uuid', description: 'The id of the last run of the page before' })),
  status: Type.Optional(Type.String({ maxLength: 20 })),
  pipeline_id: Type.Optional(Uuid),
  domain_id: Type.Optional(Uuid),
  triggered_by: Type.Optional(Type.String({ maxLength: 20 })),
  since: Type.Optional(Since),
  until: Type.Optional(Until),
  include_counts,
})
export const LogsQuery = Type.Object({
  tail: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'Only the last lines' })),
  q: Type.Optional(
    Type.String({ minLength: 1, maxLength: 200, description: 'Only lines with this text, in upper or lower case' }),
  ),
  level: Type.Optional(Type.Enum([...LOG_LEVELS], { description: 'Only lines of this level and of those above it' })),
  before: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 2 ** 31 - 1, description: 'Only lines with a lower number' }),
  ),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 10_000,
      description: 'Only the last lines of those that match; 1000 unless given, with q, level or before',
    }),
  ),
})
export const Logs = Type.Object({
  logs: Type.String(),
  numbers: Nullable(
    Type.Array(Type.Integer(), { description: 'The number of each line, with q, level, before, limit or tail' }),
  ),
  more: Type.Boolean({ description: 'There are earlier lines: give the first number as `before`' }),
})
export const EventsQuery = Type.Object({
  seconds: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 3600, description: 'The stream ends after this time. Absent: it does not' }),
  ),
})
export const Cancelled = Type.Object({ status: Type.Literal('cancelled') })
const FILE = { schema: Type.Unsafe<unknown>({ type: 'string', format: 'binary' }) }
/** The first is what generated clients take for all of them. */
const FILE_TYPES = [
  'application/octet-stream',
  'application/x-ndjson',
  'text/csv',
  'text/tab-separated-values',
  'application/vnd.apache.parquet',
  'application/gzip',
]
export const outputFile = (description: string) => ({
  description,
  content: Object.fromEntries(FILE_TYPES.map((type) => [type, FILE])),
})
export const quarantineFile = {
  description: 'Lines of `{record, reason}`',
  content: { 'application/x-ndjson': FILE },
}
export const OutputQuery = Type.Object({ ticket: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })) })
export const Ticket = Type.Object({
  ticket: Type.String(),
  url: Type.String({ description: 'Address of the file, relative to the service; works once' }),
  expires_at: Timestamp,
})
export const StatsQuery = Type.Object({ days: Type.Integer({ minimum: 1, maximum: 365, default: 30 }) })
const Seconds = Nullable(Type.Number())
export const PipelineStats = Type.Object({
  days: Type.Integer(),
  runs: Type.Integer(),
  succeeded: Type.Integer(),
  failed: Type.Integer(),
  cancelled: Type.Integer(),
  success_rate: Nullable(Type.Number({ description: 'Of the runs that succeeded or failed' })),
  duration_seconds: Type.Object({ p50: Seconds, p95: Seconds, max: Seconds }),
  records_per_day: Type.Array(Type.Object({ day: Type.String(), runs: Type.Integer(), records: Type.Integer() })),
})
