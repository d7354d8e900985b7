import { MOST_FAILURES, MOST_TIMES } from '../../runs/timeline.ts'
import { Type } from '../../schema.ts'
import { Nullable, Timestamp, Uuid } from './common.ts'
import { RunStatusName } from './runs.ts'

export const TimelineQuery = Type.Object({
  pipelines: Type.Integer({ minimum: 1, maximum: 50, default: 20, description: 'The most pipelines to return' }),
})

export const TimelineBar = Type.Object({
  id: Uuid,
  status: RunStatusName,
  started_at: Timestamp,
  finished_at: Nullable(Timestamp),
  runs: Type.Integer({
    description:
      'Runs that begin within the same ten minutes are one entry, with the id and status of the one that matters most',
  }),
})

export const TimelinePipeline = Type.Object({
  id: Uuid,
  name: Type.String(),
  domain_id: Nullable(Uuid),
  source_name: Nullable(Type.String()),
  stream: Type.String(),
  destination_name: Nullable(Type.String()),
  saved_source_id: Nullable(Uuid),
  saved_destination_id: Nullable(Uuid),
  enabled: Type.Boolean(),
  last_run_id: Nullable(Uuid),
  last_run_status: Nullable(RunStatusName),
  last_run_at: Nullable(Timestamp),
  last_error: Nullable(Type.String()),
  failures: Type.Integer({
    description: `If its last run failed: how often it has failed since its last success, counted to ${MOST_FAILURES}`,
  }),
  runs: Type.Array(TimelineBar),
  next_times: Type.Array(Timestamp, { description: `Of its schedule, at most ${MOST_TIMES}` }),
  more_times: Type.Boolean({ description: 'It is scheduled more often than `next_times` has room for' }),
})

export const RunTimeline = Type.Object({
  from: Timestamp,
  now: Timestamp,
  to: Timestamp,
  pipelines: Type.Array(TimelinePipeline),
})

export const DaysQuery = Type.Object({
  days: Type.Integer({ minimum: 1, maximum: 31, default: 14 }),
  timezone: Type.String({
    maxLength: 64,
    default: 'UTC',
    description: 'Where a day begins: an IANA name such as Europe/Berlin',
  }),
})

export const RunDay = Type.Object({
  day: Type.String({ format: 'date' }),
  runs: Type.Integer({ description: 'Runs that were triggered on this day' }),
  succeeded: Type.Integer(),
  failed: Type.Integer(),
  cancelled: Type.Integer(),
  records: Type.Integer({ description: 'What they have written' }),
  bytes: Type.Integer(),
})
