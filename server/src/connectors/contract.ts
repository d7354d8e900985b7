/**
 * The connector contract: what a source and a destination declare and do. Read this file first; docs/connectors.md
 * walks through writing one.
 *
 * Records travel as **pages**: bytes that hold whole records, in one of two encodings. A page is not parsed on its
 * way unless its content is needed, so rows can go from table to table without ever becoming JSON.
 *
 *   ndjson   one JSON object per line. Every source can produce it and every destination accepts it.
 *   tsv      tab-separated text, one line per record, typed by the `columns` of the reading. `\N` is null; tab, newline,
 *            return, backspace, form feed, vertical tab and backslash are written \t \n \r \b \f \v \\, so that a raw tab
 *            always ends a field and a raw newline a row. PostgreSQL's COPY, MySQL's LOAD DATA, ClickHouse's
 *            TabSeparated and DuckDB can read it (types/tsv.ts).
 *
 * The text of a value is fixed by the type of its column. It is the same in both encodings, except where JSON has its own
 * notation: true and false, numbers, null, nested values for `json`, arrays for lists, and the T of ISO 8601 in times.
 *
 *   boolean                t or f
 *   int16 int32 int64      digits
 *   decimal                digits, as many as there are; NaN
 *   float32 float64        the shortest digits that parse back to the same number; NaN, Infinity, -Infinity
 *   text                   as it is                               json         one JSON value
 *   bytes                  \x and two hex digits for each byte    uuid         8-4-4-4-12 hex digits, lower case
 *   date                   YYYY-MM-DD                             time         HH:MM:SS[.ffffff]
 *   timestamp              YYYY-MM-DD HH:MM:SS[.ffffff]           timestamptz  the same in UTC, followed by +00
 *   interval               1 year 2 mons 3 days 04:05:06[.ffffff], a minus before what is negative
 *   T[]                    {1,NULL,"b c"}: NULL without quotes is null, in quotes \" and \\ are escaped, lists may nest
 *
 * These are PostgreSQL's own text formats, because most rows come from or go to PostgreSQL. ClickHouse and DuckDB read all but
 * lists and negative intervals unchanged, MySQL all but booleans, bytes, zones, lists, \f and \v. A year above 9999 or before 1, or
 * `infinity`, is written as PostgreSQL writes it; a destination that has no such time refuses the row.
 *
 * A destination lists the encodings it accepts, best first; the engine picks the first one that the source can
 * produce.
 *
 * Exactly-once loading rests on the **mark**: what a destination has committed for a pipeline, written in the same
 * transaction as the data. If the mark and our own database differ, the mark is right. Systems without such a transaction
 * recognise a **batch** instead (`Commits`).
 */
import type { Static, TObject, TSchema } from 'typebox'
import type { BlobStore } from '../blobs/blobs.ts'
import type { StoredPart } from '../blobs/parts.ts'
import type { Egress, StreamAnswer, WholeAnswer, WholeRequest } from '../egress/policy.ts'
import type { Json } from '../json/json.ts'
import type { ColumnType } from './types/column-types.ts'

export type Encoding = 'ndjson' | 'tsv'
export type WriteMode = 'append' | 'replace' | 'upsert'
export type SyncMode = 'full_refresh' | 'incremental'
export type SchemaChange = 'evolve' | 'discard' | 'fail'

/**
 * How the engine should react to a failure: a run's `error` starts with the kind; `transient` means a retry may help.
 */
export type FailureKind =
  | 'config'
  | 'auth'
  | 'source'
  | 'destination'
  | 'sandbox'
  | 'timeout'
  | 'memory'
  | 'limit'
  | 'rate_limited'
  | 'internal'

export class ConnectorError extends Error {
  readonly kind: FailureKind
  readonly transient: boolean
  constructor(kind: FailureKind, message: string, options: { transient?: boolean; cause?: unknown } = {}) {
    super(message, { cause: options.cause })
    this.name = 'ConnectorError'
    this.kind = kind
    this.transient = options.transient ?? kind === 'rate_limited'
  }
}

/**
 * A type under the name one system uses for it. Only that system may use it; all others use the column's neutral type.
 */
interface NativeType {
  /** The name of a connector or of a file format. */
  system: string
  type: string
}

/** A column of a reading, of a described stream, or of a destination's table. */
export interface Column {
  name: string
  type: ColumnType
  /** Absent if unknown. */
  nullable?: boolean
  native?: NativeType
}

export interface Page {
  bytes: Buffer
  /** How many whole records the bytes hold. */
  records: number
  /** Where a later read can resume after this page. Only resumable sources set it. */
  cursor?: Json
}

export interface Reading {
  /** The columns, if the source knows them; always set with `tsv`. */
  columns: Column[] | null
  /**
   * Overrides the source's capability for this reading: a table read in cursor order resumes, a whole table does not.
   */
  resumable?: boolean
  pages: AsyncIterable<Page>
}

/** A pipeline's `config.sync` with defaults applied. */
export interface Sync {
  mode: SyncMode
  cursor_field: string | null
  write: WriteMode
  primary_key: string[]
  schema_change: SchemaChange
  lookback_seconds: number
  allow_empty: boolean
}

/** A pipeline's `config.columns`. Names in `hash` and `exclude` are those of the source. */
export interface ColumnChoice {
  include?: string[]
  exclude?: string[]
  rename?: Record<string, string>
  hash?: string[]
}

export interface Authentication {
  type: string
  params: Record<string, Json>
}

/** Lines for the owner of a run: complete sentences, never a secret. */
export interface RunLog {
  debug(message: string): void
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}

/** What every connector call receives. `config` matches the connector's settings schema, defaults applied. */
export interface Context<Settings = Record<string, unknown>> {
  config: Settings
  /** Aborted by cancel, timeout and shutdown: stop waiting and throw. */
  signal: AbortSignal
  /** The only way out: sockets and HTTP requests go through it. */
  egress: Egress
  log: RunLog
  /** Finished outputs of the same organization, for sources that read them; opens nothing else. */
  outputs: OutputReader
  /** Tests make this throw to simulate a crash at a named point. In production it does nothing. */
  fault(point: string): Promise<void> | void
}

export interface OutputReader {
  /** The parts of the output of a run of this organization, in order, or null if there are none; readParts opens them. */
  parts(runId: string): StoredPart[] | null
  /** The columns of an output that is tab-separated text; null if it is of another kind. */
  columns?(runId: string): Column[] | null
  blobs: BlobStore
}

export interface SourceContext<Settings = Record<string, unknown>> extends Context<Settings> {
  authentication: Authentication
  /** Requests with the source's authentication applied. */
  fetch: Fetch
}

/**
 * HTTP requests through egress with the authentication applied, whatever its type. Tokens are fetched and renewed, a
 * 401 is retried once with a new token, and a redirect to another origin carries no credentials. Any status is an
 * answer; a request that gets no answer throws EgressRefused, EgressFailed, or a ConnectorError of kind `auth`.
 */
export interface Fetch {
  /** The whole answer in memory. Defaults: 60 seconds and 64 MiB. */
  (url: string | URL, request?: FetchRequest): Promise<WholeAnswer>
  /** The answer as a stream: no deadline or size limit unless given. Destroy its body to give up. */
  stream(url: string | URL, request?: Omit<FetchRequest, 'room' | 'group'>): Promise<StreamAnswer>
  /** Tokens obtained while sending requests: secrets like those in the settings. */
  readonly obtained: readonly string[]
}

export interface FetchRequest extends WholeRequest {
  /** False sends the request without credentials. */
  authenticate?: boolean
}

/** What a check is about besides the connection. */
interface Checked {
  /** Null: the connection alone. */
  stream: string | null
}

export interface ReadContext<Settings = Record<string, unknown>> extends SourceContext<Settings> {
  stream: string
  /** The encoding of the pages: one that the source supports. */
  encoding: Encoding
  sync: Sync
  /** Applied by sources that declare `columns`; for others the engine applies it. */
  columns: ColumnChoice
  /** Incremental: the cursor of the last committed run. Null in the first run and in every full refresh. */
  state: Json
  /** The cursor to resume this same run from after a lost attempt. Null at the start of the run. */
  resume: Json
}

export interface SourceCapabilities {
  incremental: boolean
  /** Keeps track of its position itself, so an incremental read needs no `cursor_field`. */
  own_cursor?: boolean
  /** Pages carry cursors, and a read that is given `resume` continues right after that page. */
  resumable: boolean
  /** Applies `columns` itself, in the source system. */
  columns: boolean
  /** The encodings it can produce. */
  encodings: readonly Encoding[]
}

/** What a source knows about a stream before reading it. Forms and column pickers are built from it. */
export interface StreamDescription {
  stream: string
  /** Null if only reading would tell. */
  columns: Column[] | null
  primary_key: string[]
  /** Columns that an incremental read could use as cursor, best first. */
  cursor_fields: string[]
  estimated_rows: number | null
}

interface Declaration<Settings extends TObject> {
  /** Lower case with underscores; the value of `source.name` and `destination.name` in a pipeline. */
  name: string
  display_name: string
  description: string
  /** A TypeBox schema; mark fields with `secret`, `overridable` and `identity` (below). */
  settings: Settings
  /**
   * The settings in one form, where several say the same (a `url`, or its parts) or a default follows from elsewhere. What
   * is marked `identity` is compared in this form. Throws a ConnectorError of kind `config` where settings that fit the
   * schema cannot be used together; a config is then refused when it is saved.
   */
  canonical?(config: Static<Settings>, stream: string): Record<string, unknown>
  /**
   * A complete `source` or `destination` object that works when pasted into a pipeline. A test creates a pipeline from
   * it.
   */
  example_config: Record<string, Json>
  /** Longer text for the generated page: what it does, what it guarantees, what it cannot do. Markdown. */
  notes: string
}

export interface Source<Settings extends TObject = TObject> extends Declaration<Settings> {
  kind: 'source'
  /** Fixed stream names, or `dynamic` if they come from the system itself. */
  streams: readonly string[] | 'dynamic'
  auth_types: readonly string[]
  capabilities: SourceCapabilities
  /**
   * Throws a ConnectorError that says what is wrong and what to do about it; returns if everything works. With a stream:
   * it exists, and these credentials may read it.
   */
  check(context: SourceContext<Static<Settings>> & Checked): Promise<void>
  listStreams(context: SourceContext<Static<Settings>>): Promise<string[]>
  /** One description per stream, in the given order. It may read the beginning of the data, never all of it. */
  describe(context: SourceContext<Static<Settings>>, streams: readonly string[]): Promise<StreamDescription[]>
  /** Throws a ConnectorError of kind `config` unless a read can start from this state, which a person may set. */
  checkState?(state: Json): void
  /** The runs of the same organization whose outputs it reads; only these are available as `context.outputs`. */
  outputs?(config: Static<Settings>): string[]
  read(context: ReadContext<Static<Settings>>): Promise<Reading>
}

/**
 * What a destination has committed for a pipeline, if it keeps a mark. `seq` orders all runs, `attempt` the attempts of
 * one run. At checkpoint 0 nothing of that run is loaded, and the cursor is still that of the previous run.
 *
 * Which run it is, only its id tells: after our database was restored from a backup, a `seq` may be given out twice.
 */
export interface Mark {
  run_id: string
  seq: number
  attempt: number
  checkpoint: number
  cursor: Json
  /** The run of this mark is fully visible: nothing is left to read or load, only to finish. */
  published?: boolean
}

interface DestinationCapabilities {
  write: readonly WriteMode[]
  /** The encodings it accepts, best first. */
  encodings: readonly Encoding[]
  commits: Commits
}

/**
 * What exactly-once loading relies on.
 *
 *   mark     it keeps a mark and commits it in one transaction with the data.
 *   batch    it has no transaction over both, but recognises a batch by its identity (`batchId`): a batch, which is what is
 *            committed between two checkpoints, changes nothing when it is sent again after a crash. The engine stores
 *            every batch before it is sent, and resends the one in doubt byte for byte. Nothing of a run may be visible
 *            before `publish`; if the system cannot hide it, the connector's page says so.
 *   output   the run's output file is all there is, and the run row is its mark.
 */
export type Commits = 'mark' | 'batch' | 'output'

export interface LoadContext<Settings = Record<string, unknown>> extends Context<Settings> {
  pipeline_id: string
  run_id: string
  stream: string
  seq: number
  attempt: number
  token: string
  installation: string
  /**
   * The attempt that began this reading. An attempt that resumes after a lost worker keeps it; one that starts over has
   * a new one, so that its batches are not mistaken for those of the abandoned reading.
   */
  reading: number
  /** The last checkpoint that is already loaded; 0 at the start of a run. */
  checkpoint: number
  sync: Sync
  encoding: Encoding
  columns: Column[] | null
  /** Whether the source can resume from a cursor: if not, nothing may be visible before `publish`. */
  resumable: boolean
  /** The schema stored for the pipeline after its last run, or null. */
  schema: Column[] | null
  /** Stores the pipeline's schema and tells its owner what changed. */
  saveSchema(columns: Column[], changes: string[]): void
  /**
   * Asks for a checkpoint as soon as the source has a place to go on from, also while it gives nothing: at once where its
   * last page had a cursor or it cannot resume. For a destination that holds a transaction open since the last one.
   */
  requestCheckpoint(): void
  /** Absent: as many bytes of rows may wait in memory as the destination thinks right. */
  holdBytes?: number
}

export interface FenceContext<Settings = Record<string, unknown>> extends Context<Settings> {
  pipeline_id: string
  run_id: string
  seq: number
  attempt: number
  /**
   * Random, for this attempt only. After a failover that lost transactions, two workers may hold the same attempt of the
   * same run: the token in the mark is the one that may commit.
   */
  token: string
  /** Which installation of the platform this is, for messages. A restored database becomes another one. */
  installation: string
}

/**
 * The load of one attempt. The engine calls `write` for each page of checkpoint n, then `commit(n, cursor)`, the same
 * for n + 1 and so on, then `publish` once. `abort` may come at any point and must leave nothing visible that was not
 * committed. A call that finds a newer attempt throws a ConnectorError of kind `destination` saying it was fenced.
 */
export interface Load {
  write(page: Page): Promise<void>
  /** Makes everything written since the last commit durable together with the mark (seq, attempt, checkpoint, cursor). */
  commit(checkpoint: number, cursor: Json): Promise<void>
  /**
   * Makes the run visible as a whole. Idempotent: calling it again after a crash changes nothing. If publishing changes
   * what is visible, the cursor goes into the mark in the same transaction: that is how the next attempt knows that
   * only the finish is missing.
   */
  publish(checkpoint: number, cursor: Json): Promise<void>
  abort(): Promise<void>
}

/**
 * The identity of a batch, for destinations whose `commits` is `batch`: the same for the same rows, and for no others.
 */
export function batchId(
  { pipeline_id, run_id, reading }: Pick<LoadContext, 'pipeline_id' | 'run_id' | 'reading'>,
  checkpoint: number,
): string {
  return `${pipeline_id}/${run_id}/${reading}/${checkpoint}`
}

/** The format of a run's output file. */
export interface OutputShape {
  format: 'jsonl' | 'csv' | 'parquet'
  compression: 'none' | 'gzip'
}

export interface Destination<Settings extends TObject = TObject> extends Declaration<Settings> {
  kind: 'destination'
  capabilities: DestinationCapabilities
  /** The output file that the settings ask for. Absent if the stage serves as the output unchanged. */
  output?(config: Static<Settings>): OutputShape
  /** As for a source. With a stream: its records can be written to the place that the settings name. */
  check(context: Context<Static<Settings>> & Checked): Promise<void>
  /**
   * Takes the mark for this attempt, so that older attempts no longer match it, and returns what was there before: the
   * mark of this run (resume), of an earlier run (its cursor is the state), or null. A destination without a mark
   * returns null; then our database fences, because a batch is saved there, conditionally on the attempt, before it is
   * sent.
   */
  fence(context: FenceContext<Static<Settings>>): Promise<Mark | null>
  /** Called once the reading is open, so that encoding and columns are known. */
  open(context: LoadContext<Static<Settings>>): Promise<Load>
}

export type Connector = Source | Destination

/** Marks a setting as secret: masked for callers without write permission, redacted in logs. */
export function secret<T extends TSchema>(schema: T): T {
  return marked(schema, 'secret')
}

/**
 * Marks a setting that a pipeline may override when it uses a saved connector. Never an address, a port or a secret.
 */
export function overridable<T extends TSchema>(schema: T): T {
  return marked(schema, 'override')
}

/**
 * Marks a setting that decides which data is read, or where it goes: host, database, table, query. A cursor belongs to
 * these; if one changes, the next run starts over. Never a secret, and nothing that only changes how data is moved.
 */
export function identity<T extends TSchema>(schema: T): T {
  return marked(schema, 'identity')
}

/** A copy with one more keyword. TypeBox stores "optional" in a non-enumerable property, which a spread would lose. */
function marked<T extends TSchema>(schema: T, keyword: string): T {
  const copy = Object.create(Object.getPrototypeOf(schema), Object.getOwnPropertyDescriptors(schema))
  return Object.assign(copy, { [keyword]: true })
}
