/**
 * The connector contract: what a source and a destination declare and do. Read this file first; docs/connectors.md
 * walks through writing one.
 *
 * Records travel as **pages**: bytes that hold whole records, in one of two encodings. A page is never parsed on its
 * way unless somebody has to look inside, so a table can go to a table without ever becoming JSON.
 *
 *   ndjson   one JSON object per line. Every source can give it and every destination takes it.
 *   tsv      tab-separated text, one line per record, typed by the `columns` of the reading. `\N` is null; tab, newline,
 *            return, backspace, form feed, vertical tab and backslash are written \t \n \r \b \f \v \\, so that a raw tab
 *            always ends a field and a raw newline a row. COPY of PostgreSQL, LOAD DATA of MySQL, TabSeparated of
 *            ClickHouse and DuckDB read it (types/tsv.ts).
 *
 * The text of a value is fixed by the type of its column. It is the same in both, but for what JSON has of its own: true and
 * false, numbers, null, nested values for `json`, arrays for lists, and the T of ISO 8601 inside of times.
 *
 *   boolean                t or f
 *   int16 int32 int64      digits
 *   decimal                digits, as many as there are; NaN
 *   float32 float64        the shortest digits that read back as the same number; NaN, Infinity, -Infinity
 *   text                   as it is                               json         one JSON value
 *   bytes                  \x and two hex digits for each byte    uuid         8-4-4-4-12 hex digits, lower case
 *   date                   YYYY-MM-DD                             time         HH:MM:SS[.ffffff]
 *   timestamp              YYYY-MM-DD HH:MM:SS[.ffffff]           timestamptz  the same in UTC, with +00 behind it
 *   interval               1 year 2 mons 3 days 04:05:06[.ffffff], a minus before what is negative
 *   T[]                    {1,NULL,"b c"}: NULL without quotes is null, in quotes \" and \\ are escaped, lists may nest
 *
 * Each of them is what PostgreSQL writes and reads by itself, because most rows come from one or go to one. ClickHouse and
 * DuckDB read all but lists and negative intervals as they are, MySQL all but booleans, bytes, zones and lists. A year above
 * 9999 or before 1, or `infinity`, is written as PostgreSQL writes it; a destination that has no such time refuses the row.
 *
 * A destination lists the encodings it accepts, best first; the engine asks the source for the first of them that it can
 * give.
 *
 * Exactly-once loading rests on the **mark**: what a destination has committed of a pipeline, written in the same
 * transaction as the data. Where the mark and our own database differ, the mark is right. Systems that have no such
 * transaction recognise a **batch** instead (`Commits`).
 */
import type { Static, TObject, TSchema } from 'typebox'
import type { BlobStore } from '../blobs/blobs.ts'
import type { Egress, StreamAnswer, WholeAnswer, WholeRequest } from '../egress/policy.ts'
import type { Json } from '../json/json.ts'
import type { ColumnType } from './types/column-types.ts'

export type Encoding = 'ndjson' | 'tsv'
export type WriteMode = 'append' | 'replace' | 'upsert'
export type SyncMode = 'full_refresh' | 'incremental'
export type SchemaChange = 'evolve' | 'discard' | 'fail'

/** How the engine should react to a failure: the kind starts a run's `error`, `transient` says that trying again may help. */
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

/** A type as one system calls it. Only that system may use it; to all others the column is of its neutral type. */
interface NativeType {
  /** The name of a connector, or of a file format. */
  system: string
  type: string
}

/** A column, of a reading, of a stream that is described, or of the table that a destination keeps. */
export interface Column {
  name: string
  type: ColumnType
  /** Absent where nobody knows. */
  nullable?: boolean
  native?: NativeType
}

export interface Page {
  bytes: Buffer
  /** How many whole records the bytes hold. */
  records: number
  /** Where a later read may go on after this page. Only sources that can resume give one. */
  cursor?: Json
}

export interface Reading {
  /** The columns where the source knows them; always given with `tsv`. */
  columns: Column[] | null
  /** Where one reading differs from the source's capability: a table in order of its cursor resumes, a whole one does not. */
  resumable?: boolean
  pages: AsyncIterable<Page>
}

/** What a pipeline's `config.sync` says, with the defaults applied. */
export interface Sync {
  mode: SyncMode
  cursor_field: string | null
  write: WriteMode
  primary_key: string[]
  schema_change: SchemaChange
  lookback_seconds: number
  allow_empty: boolean
}

/** What a pipeline's `config.columns` says. Names in `hash` and `exclude` are those of the source. */
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

/** Lines that the owner of a run reads: whole sentences, never a secret. */
export interface RunLog {
  debug(message: string): void
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}

/** What every call of a connector gets. `config` fits the connector's settings schema, defaults applied. */
export interface Context<Settings = Record<string, unknown>> {
  config: Settings
  /** Aborted by cancel, time-out and shutdown: stop waiting and throw. */
  signal: AbortSignal
  /** The one way out: sockets and HTTP requests go through it. */
  egress: Egress
  log: RunLog
  /** The organization's own finished outputs, for sources that read them; opens nothing else. */
  outputs: OutputReader
  /** Tests make this throw to stand for a crash at a named point. In production it does nothing. */
  fault(point: string): Promise<void> | void
}

export interface OutputReader {
  /** The blobs that make up the output of a run of this organization, in order, or null where there is none. */
  parts(runId: string): { key: string; size: number }[] | null
  blobs: BlobStore
}

export interface SourceContext<Settings = Record<string, unknown>> extends Context<Settings> {
  authentication: Authentication
  /** Requests with the source's authentication on them. */
  fetch: Fetch
}

/**
 * HTTP requests through egress with the authentication applied, whatever its type. Tokens are fetched and renewed, a 401
 * is answered by one more try with a new token, and a redirect to another origin carries no credentials. Statuses are
 * answers; a request that gets none throws EgressRefused, EgressFailed, or a ConnectorError of kind `auth`.
 */
export interface Fetch {
  /** The whole answer in memory: 60 seconds and 64 MiB unless told otherwise. */
  (url: string | URL, request?: FetchRequest): Promise<WholeAnswer>
  /** The answer as a stream: no deadline and no size limit unless given. Destroy its body to give up. */
  stream(url: string | URL, request?: Omit<FetchRequest, 'room' | 'group'>): Promise<StreamAnswer>
  /** Tokens that were obtained on the way: secrets like those of the settings. */
  readonly obtained: readonly string[]
}

export interface FetchRequest extends WholeRequest {
  /** False sends the request without credentials. */
  authenticate?: boolean
}

export interface ReadContext<Settings = Record<string, unknown>> extends SourceContext<Settings> {
  stream: string
  /** What the pages are to hold: one of the encodings that the source can give. */
  encoding: Encoding
  sync: Sync
  /** Applied by sources that declare `columns`; for the others the engine does it. */
  columns: ColumnChoice
  /** Incremental: the cursor of the last committed run. Null in the first run and in every full refresh. */
  state: Json
  /** The cursor to go on from inside this same run after a lost attempt. Null at its beginning. */
  resume: Json
}

export interface SourceCapabilities {
  incremental: boolean
  /** Knows by itself where it stopped, so that an incremental read needs no `cursor_field`. */
  own_cursor?: boolean
  /** Pages carry cursors, and a read given `resume` goes on right after that page. */
  resumable: boolean
  /** Applies `columns` by itself, where the data lies. */
  columns: boolean
  /** What it can give. */
  encodings: readonly Encoding[]
}

/** What a source knows of a stream before it is read. Forms and column pickers are drawn from it. */
export interface StreamDescription {
  stream: string
  /** Null where only reading would tell. */
  columns: Column[] | null
  primary_key: string[]
  /** Columns by which an incremental read could go on, the best first. */
  cursor_fields: string[]
  estimated_rows: number | null
}

interface Declaration<Settings extends TObject> {
  /** Lower case with underscores; what `source.name` and `destination.name` say in a pipeline. */
  name: string
  display_name: string
  description: string
  /** TypeBox schema; mark fields with `secret` and `override` (below). */
  settings: Settings
  /** A whole `source` or `destination` object that works when pasted into a pipeline. A test creates a pipeline from it. */
  example_config: Record<string, Json>
  /** Longer text for the generated page: what it does, what it promises, what it cannot do. Markdown. */
  notes: string
}

export interface Source<Settings extends TObject = TObject> extends Declaration<Settings> {
  kind: 'source'
  /** Fixed stream names, or `dynamic` where they come from the system itself. */
  streams: readonly string[] | 'dynamic'
  auth_types: readonly string[]
  capabilities: SourceCapabilities
  /** Throws a ConnectorError that says what is wrong and what to do; returning means it works. */
  check(context: SourceContext<Static<Settings>>): Promise<void>
  listStreams(context: SourceContext<Static<Settings>>): Promise<string[]>
  /** One description for each of the streams, in their order. It may look at the beginning of the data, never at all of it. */
  describe(context: SourceContext<Static<Settings>>, streams: readonly string[]): Promise<StreamDescription[]>
  /** The runs of the same organization whose outputs it reads; only these are opened to it, as `context.outputs`. */
  outputs?(config: Static<Settings>): string[]
  read(context: ReadContext<Static<Settings>>): Promise<Reading>
}

/**
 * What a destination has committed of a pipeline, where it keeps a mark. `seq` orders all runs, `attempt` the tries of one run. At checkpoint 0
 * nothing of that run is in, and the cursor is still the one of the run before it.
 */
export interface Mark {
  seq: number
  attempt: number
  checkpoint: number
  cursor: Json
  /** The run of this mark is visible as a whole: nothing is left to read or load, only to finish. */
  published?: boolean
}

interface DestinationCapabilities {
  write: readonly WriteMode[]
  /** What it accepts, best first. */
  encodings: readonly Encoding[]
  commits: Commits
}

/**
 * On what exactly-once loading rests.
 *
 *   mark     it keeps a mark of its own and commits it in one transaction with the data.
 *   batch    it has no transaction over both, but recognises a batch by its identity (`batchId`): what is committed between
 *            two checkpoints, sent again after a crash, changes nothing. The engine keeps every batch with us before it is
 *            sent, and sends the one in doubt again byte for byte. Nothing of a run may be visible before `publish`; where
 *            the system cannot hide it, the connector's page says so.
 *   output   the run's output file is all there is, and the run row is its mark.
 */
export type Commits = 'mark' | 'batch' | 'output'

export interface LoadContext<Settings = Record<string, unknown>> extends Context<Settings> {
  pipeline_id: string
  run_id: string
  stream: string
  seq: number
  attempt: number
  /**
   * The attempt that began this reading. One that goes on after a lost worker keeps it; one that begins anew has its own,
   * so that its batches are not taken for those of the reading that was given up.
   */
  reading: number
  sync: Sync
  encoding: Encoding
  columns: Column[] | null
  /** Whether the source can go on from a cursor: if not, nothing may be visible before `publish`. */
  resumable: boolean
  /** The schema kept for the pipeline after its last run, or null. */
  schema: Column[] | null
  /** Keeps the pipeline's schema and tells its owner what changed. */
  saveSchema(columns: Column[], changes: string[]): void
}

export interface FenceContext<Settings = Record<string, unknown>> extends Context<Settings> {
  pipeline_id: string
  run_id: string
  seq: number
  attempt: number
}

/**
 * One attempt's load. The engine calls, in this order: `write` for each page of checkpoint n, `commit(n, cursor)`, again
 * for n + 1 and so on, then `publish` once. `abort` may come at any point and must leave nothing visible that was not
 * committed. A call that finds a newer attempt throws a ConnectorError of kind `internal` saying it was fenced.
 */
export interface Load {
  write(page: Page): Promise<void>
  /** Makes everything written since the last commit durable together with the mark (seq, attempt, checkpoint, cursor). */
  commit(checkpoint: number, cursor: Json): Promise<void>
  /**
   * Makes the run visible as a whole. Called again after a crash, it changes nothing. Where publishing changes what is
   * visible, the cursor goes into the mark in that same transaction: by it the next attempt knows that only the finish
   * is missing.
   */
  publish(checkpoint: number, cursor: Json): Promise<void>
  abort(): Promise<void>
}

/** The identity of a batch, for destinations whose `commits` is `batch`: the same for the same rows, and for no others. */
export function batchId(
  { pipeline_id, run_id, reading }: Pick<LoadContext, 'pipeline_id' | 'run_id' | 'reading'>,
  checkpoint: number,
): string {
  return `${pipeline_id}/${run_id}/${reading}/${checkpoint}`
}

/** The form of a run's output file. */
export interface OutputShape {
  format: 'jsonl' | 'csv' | 'parquet'
  compression: 'none' | 'gzip'
}

export interface Destination<Settings extends TObject = TObject> extends Declaration<Settings> {
  kind: 'destination'
  capabilities: DestinationCapabilities
  /** The output file that the settings ask for. Absent where the stage, as it is, serves as the output. */
  output?(config: Static<Settings>): OutputShape
  check(context: Context<Static<Settings>>): Promise<void>
  /**
   * Takes the mark for this attempt, so that older ones match nothing from now on, and returns what stood there: the
   * mark of this run (resume), of an earlier one (its cursor is the state), or null. Without a mark of its own it returns
   * null: our database fences then, for a batch is saved with us, on condition of the attempt, before it is sent.
   */
  fence(context: FenceContext<Static<Settings>>): Promise<Mark | null>
  /** Called once the reading is open, so that encoding and columns are known. */
  open(context: LoadContext<Static<Settings>>): Promise<Load>
}

export type Connector = Source | Destination

/** Marks a setting as secret: masked for those who may not write, redacted in logs. */
export function secret<T extends TSchema>(schema: T): T {
  return marked(schema, 'secret')
}

/** Marks a setting that a pipeline may override beside a saved connector. Never an address, a port or a secret. */
export function overridable<T extends TSchema>(schema: T): T {
  return marked(schema, 'override')
}

/** A copy with one more keyword. TypeBox keeps "optional" in a property that a spread would lose. */
function marked<T extends TSchema>(schema: T, keyword: string): T {
  const copy = Object.create(Object.getPrototypeOf(schema), Object.getOwnPropertyDescriptors(schema))
  return Object.assign(copy, { [keyword]: true })
}
