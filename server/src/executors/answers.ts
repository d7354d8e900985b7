/**
 * Validates the answers that the executor of a call may give, by kind of call: types, lengths and counts of everything.
 * An executor has just handled the bytes of a tenant's code or server, so its answer is untrusted until it passes here.
 * Nothing is derived from it or stored before that.
 */
import type { FailureKind } from '../connectors/contract.ts'
import { type ColumnType, isColumnType } from '../connectors/types/column-types.ts'
import type { FrameLimits } from './channel.ts'
import type { CallKind } from './messages.ts'

type Guard<T> = (value: unknown) => value is T
type Guarded<G> = G extends Guard<infer T> ? T : never

const is =
  <T>(test: (value: unknown) => boolean): Guard<T> =>
  (value): value is T =>
    test(value)

const flag = is<boolean>((value) => typeof value === 'boolean')
const whole = (most: number) =>
  is<number>((value) => Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= most)
const text = (most: number) => is<string>((value) => typeof value === 'string' && value.length <= most)
const oneOf = <const T extends string>(...values: T[]) => is<T>((value) => values.includes(value as T))
const nothing = is<null>((value) => value === null)
const nullable = <T>(guard: Guard<T>) => is<T | null>((value) => value === null || guard(value))
const list = <T>(most: number, item: Guard<T>) =>
  is<T[]>((value) => Array.isArray(value) && value.length <= most && value.every(item))
/** An object with exactly these fields. */
const fields = <G extends Record<string, Guard<unknown>>>(guards: G) =>
  is<{ [K in keyof G]: Guarded<G[K]> }>(
    (value) =>
      typeof value === 'object' &&
      value !== null &&
      Object.keys(value).length === Object.keys(guards).length &&
      Object.entries(guards).every(([name, guard]) => guard((value as Record<string, unknown>)[name])),
  )

/** Long enough that the cut is never visible: a message is redacted first and then shortened much further. */
export const LONGEST_MESSAGE = 64 * 1024
const MAX_STREAMS = 100_000
/** A form describes one, a picker some; a database may have thousands. */
export const MAX_DESCRIBED = 100
const MAX_LOG_LINES = 10_000
const LONGEST_LOG_LINE = 512 * 1024
const LONGEST_NAME = 500
const LONGEST_FIELD = 10_000
const MAX_COLUMNS = 10_000
const MAX_FINDINGS = 1000
const MAX_SCHEMA = 1024 * 1024
/** Of a query's result. */
export const MAX_ROWS = 10_000
const DAY_MS = 86_400_000

const name = text(LONGEST_NAME)
const findings = list(
  MAX_FINDINGS,
  fields({
    line: whole(2 ** 31),
    column: whole(2 ** 31),
    message: text(LONGEST_MESSAGE),
    severity: oneOf('error', 'warning'),
  }),
)

const field = text(LONGEST_FIELD)
const columnType = is<ColumnType>((value) => typeof value === 'string' && isColumnType(value))
const description = fields({
  stream: text(LONGEST_MESSAGE),
  columns: nullable(
    list(
      MAX_COLUMNS,
      fields({
        name: field,
        type: columnType,
        native_type: nullable(field),
        nullable: nullable(flag),
      }),
    ),
  ),
  primary_key: list(MAX_COLUMNS, field),
  cursor_fields: list(MAX_COLUMNS, field),
  estimated_rows: nullable(whole(Number.MAX_SAFE_INTEGER)),
})

const answers = {
  self_test: fields({ ok: flag, reason: text(LONGEST_MESSAGE) }),
  check: nothing,
  streams: list(MAX_STREAMS, text(LONGEST_MESSAGE)),
  describe: fields({
    streams: list(MAX_STREAMS, text(LONGEST_MESSAGE)),
    descriptions: list(MAX_DESCRIBED, description),
  }),
  /** The records are the body, as JSON text. */
  preview: fields({
    success: flag,
    total_count: whole(1000),
    execution_time_ms: whole(DAY_MS),
    error: nullable(text(LONGEST_MESSAGE)),
    logs: list(MAX_LOG_LINES, text(LONGEST_LOG_LINE)),
  }),
  validate: fields({
    valid: flag,
    errors: findings,
    warnings: findings,
    extracted_source_name: nullable(name),
    extracted_streams: nullable(list(1000, name)),
    extracted_schema: fields({
      config_class_name: nullable(name),
      config_fields: list(500, fields({ name, type_hint: nullable(name), required: flag })),
      auth_class_name: nullable(name),
      auth_type: nullable(name),
    }),
    settings_enforced: flag,
  }),
  /** The rows are the body: JSON text or CSV. */
  query: fields({
    columns: list(MAX_COLUMNS, fields({ name: field, type: columnType })),
    rows: whole(MAX_ROWS),
    truncated: flag,
    execution_time_ms: whole(DAY_MS),
  }),
  /** The records are the body, as JSON text. */
  pipeline_preview: fields({
    count: whole(1000),
    columns: list(MAX_COLUMNS, fields({ name: field, type: columnType, native_type: nullable(field) })),
    changes: list(MAX_FINDINGS, text(LONGEST_MESSAGE)),
    problems: list(MAX_FINDINGS, text(LONGEST_MESSAGE)),
  }),
  validate_manifest: fields({
    runs: oneOf('whole', 'part', 'no'),
    streams: list(MAX_STREAMS, text(LONGEST_MESSAGE)),
    /** Whether the settings decide which streams there are. */
    dynamic: flag,
    findings,
    /** The JSON schema of the settings, as JSON text. */
    settings_schema: text(MAX_SCHEMA),
  }),
} satisfies Record<CallKind, Guard<unknown>>

export type Answers = { [K in CallKind]: Guarded<(typeof answers)[K]> }

export const isAnswer = <K extends CallKind>(kind: K, value: unknown): value is Answers[K] =>
  (answers[kind] as Guard<unknown>)(value)

/**
 * The maximum size of a frame. The body of a preview is its records, of which a cell returns up to 16 MB, plus commas; that of a query its rows, 16 MB
 * at most.
 */
export const CALL_FRAME_LIMITS: FrameLimits = {
  head: 4 * 1024 * 1024,
  body: 17 * 1024 * 1024,
  perSecond: { frames: 1000, bytes: 256 * 1024 * 1024 },
}

const kinds: readonly FailureKind[] = [
  'config',
  'auth',
  'source',
  'destination',
  'sandbox',
  'timeout',
  'memory',
  'limit',
  'rate_limited',
  'internal',
]

export const isFailure = fields({
  type: oneOf('failure'),
  kind: oneOf(...kinds),
  message: text(LONGEST_MESSAGE),
  reusable: flag,
})
