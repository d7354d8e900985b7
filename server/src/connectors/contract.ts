/**
 * The connector contract: what a source and a destination declare and do. Read this file first; docs/connectors.md
 * walks through writing one.
 *
 * Records travel as **pages**: bytes that hold whole records, in an encoding. A page is not parsed on its
 * way unless its content is needed, so rows can go from table to table without ever becoming JSON.
 *
 *   ndjson   one JSON object per line. Every source can produce it and every destination accepts it.
 *   tsv      tab-separated text, one line per record, typed by the `columns` of the reading. `\N` is null; tab, newline,
 *            return, backspace, form feed, vertical tab and backslash are written \t \n \r \b \f \v \\, so that a raw tab
 *            always ends a field and a raw newline a row. PostgreSQL's COPY, MySQL's LOAD DATA, ClickHouse's
 *            TabSeparated and DuckDB can read it (types/tsv.ts).
 *
 * A source that has a whole file (CSV, JSON lines) may give it as a table instead of pages. A destination that can take it
 * converts it to one Parquet file, whose bytes then travel as pages that are cut anywhere.
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
 * Two ends of the same system may skip that text. If nobody but the destination will ever see the rows, because the run
 * keeps no output, a reading may offer the same rows in the system's **native form** too (`NativeForm`), and the load
 * decides, when it is opened and has looked at its table, which of the two it takes.
 *
 * Exactly-once loading rests on the **mark**: what a destination has committed for a pipeline, written in the same
 * transaction as the data. If the mark and our own database differ, the mark is right. Systems without such a transaction
 * recognise a **batch** instead (`Commits`).
 */

import type { BlobStore } from '../blobs/blobs.ts'
import type { StoredPart } from '../blobs/parts.ts'
import type { Egress, StreamAnswer, WholeAnswer, WholeRequest } from '../egress/policy.ts'
import type { Json } from '../json/json.ts'
import type { Static, TObject, TSchema } from '../schema.ts'
import type { Table } from './formats/local-table.ts'
import type { LineFacts } from './types/column-facts.ts'
import type { ColumnType } from './types/column-types.ts'

export type Encoding = 'ndjson' | 'tsv'
/**
 * Rows in a form that only one system reads and writes. A mistake about a type would not be noticed there: eight bytes are
 * an int8 or a time. So both ends must have the very same types, and each must have asked its own server.
 *
 *   pgcopy   PostgreSQL's binary COPY, whole rows without header and trailer, typed by the native types of the columns.
 */
export type NativeForm = 'pgcopy'
/** What the stage holds: pages as they were read, or the Parquet file that the destination made of a table. */
export type StageEncoding = Encoding | 'parquet'
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
  /** A load may call it when it needs the bytes no more, so that their memory can be given back: they are gone then. */
  release?: () => void
  /** What the source learned about the fields of JSON lines while it checked them, if `survey` asked for it. */
  facts?: LineFacts
  /** Of a table that is converted: the pages before it do not count, and the file begins anew with the next one. */
  restart?: true
}

export interface Reading {
  /** The columns, if the source knows them; always set with `tsv`. */
  columns: Column[] | null
  /**
   * Overrides the source's capability for this reading: a table read in cursor order resumes, a whole table does not.
   */
  resumable?: boolean
  pages: AsyncIterable<Page>
  /** The same rows in the source's native form. Either these are read or `pages`, never both. */
  native?: AsyncIterable<Page>
  /** Instead of pages, if `tables` allows it: the whole stream, which then cannot resume. */
  table?: Table
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
  /** Absent in runs that an earlier release has triggered: fail. */
  on_error?: 'fail' | 'quarantine'
  /** The share of the records read, from 0 to 1, above which refused records fail the run. */
  max_error_share?: number
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
  /** Adds a token that the source obtained itself, so that no log shows it. */
  remember(token: string): void
  /**
   * Uses up the refresh token at `path` of the source's settings. No other process uses it at the same time, and its
   * replacement is stored before this resolves with it. `use` may be called again with a newer token.
   */
  exchange(held: string, path: readonly string[], use: (token: string) => Promise<Exchanged>): Promise<string>
}

/** What the exchange of a refresh token brought: its replacement, if there is one, and further settings to store with it. */
export interface Exchanged {
  rotated: string | null
  also: ReadonlyArray<{ path: readonly string[]; value: string }>
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

/**
 * A part of a stream, by its cursor: values from `from` up to, but not including, `to`, so that neighbouring ranges have no
 * record in common. Records without a value are in no range.
 */
export interface ReadRange {
  from: string | number
  to: string | number
}

export interface ReadContext<Settings = Record<string, unknown>> extends SourceContext<Settings> {
  stream: string
  /** The encoding of the pages: one that the source supports. */
  encoding: Encoding
  sync: Sync
  /** The reading may offer rows in the native form. */
  native?: boolean
  /** Applied by sources that declare `columns`; for others the engine applies it. */
  columns: ColumnChoice
  /** The destination needs the facts of all records: a source that checks its lines anyway collects them in the same pass. */
  survey?: boolean
  /** The destination can convert a whole table (`Load.convert`), so a reading may have one instead of pages. */
  tables?: boolean
  /** Incremental: the cursor of the last committed run. Null in the first run and in every full refresh. */
  state: Json
  /** The cursor to resume this same run from after a lost attempt. Null at the start of the run. */
  resume: Json
  /** Of a back-fill: only this part is read, and `state` is null. Given only to sources that declare `ranges`. */
  range?: ReadRange
}

export interface SourceCapabilities {
  incremental: boolean
  /** Keeps track of its position itself, so an incremental read needs no `cursor_field`. */
  own_cursor?: boolean
  /** An incremental read can be limited to a range of the cursor (`ReadContext.range`). Absent: it cannot. */
  ranges?: true
  /** Pages carry cursors, and a read that is given `resume` continues right after that page. */
  resumable: boolean
  /** Applies `columns` itself, in the source system. */
  columns: boolean
  /** The encodings it can produce. */
  encodings: readonly Encoding[]
  /** What it may offer besides; `pages` is then tab-separated text. */
  native?: NativeForm
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
  /** Throws a ConnectorError of kind `config` where it is plain without the data that this cannot be a range. */
  checkRange?(range: ReadRange): void
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
  /** What it may take besides. */
  native?: NativeForm
  commits: Commits
  /** It reports single records that it refuses (`LoadContext.refused`). Absent: `on_error: quarantine` cannot be chosen. */
  quarantine?: true
}

/**
 * What exactly-once loading relies on.
 *
 *   mark     it keeps a mark and commits it in one transaction with the data.
 *   batch    it has no transaction over both, but recognises a batch by its identity (`batchId`): a batch, which is what is
 *            committed between two checkpoints, changes nothing when it is sent again after a crash. The engine stores
 *            every batch before it is sent, and resends the one in doubt byte for byte. Nothing of a run may be visible
 *            before `publish`; if the system cannot hide it, the connector's page says so.
 *   output   the run's output file is all there is, and the run row is its mark. What it writes is a format (`output`), or a
 *            file of its own that goes on from run to run (`buildOutput`).
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
  /** True if the reading is a table: what is written is the Parquet file that `convert` makes of it. */
  table?: boolean
  columns: Column[] | null
  /** The reading offers its rows in the native form too. */
  native?: boolean
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
  /** Where records go that the destination refuses. Absent: such a record fails the run. */
  refused?: RefusedRecords
}

/**
 * The quarantine of a run (`config.sync.on_error`). Only what is wrong with a single record is refused: a value that its
 * column cannot hold, a constraint, a trigger that raises an error. A lost connection, a missing right or a changed schema
 * fails the run.
 *
 * A record counts as refused exactly when its checkpoint counts as loaded. A destination with a mark calls `keep` as the
 * last thing before it commits a checkpoint and before it publishes, once it knows what it refuses. For all others the
 * engine does.
 */
export interface RefusedRecords {
  /**
   * `record` is one JSON object without newlines: the record as it would have been written, under the names of its
   * columns. `reason` is a sentence without credentials. Resolves when more may be added, and throws once too large a
   * share was refused: that ends the run.
   */
  add(record: string, reason: string): Promise<void>
  /** Makes what was added durable, together with the checkpoint that is being committed. */
  keep(): Promise<void>
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
  /** It takes the rows that were offered in the native form; they are what `write` gets. */
  readonly native?: boolean
  /**
   * Turns a table into one Parquet file. The engine stores its pages and hands them to `write`, as others; all of them are one
   * checkpoint. The columns are known once all pages were read.
   */
  convert?(table: Table): Promise<{ columns(): Column[]; pages: AsyncIterable<Page> }>
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

/** What a preview of a load is given: the first records, and everything that decides where they go. */
export interface PreviewContext<Settings = Record<string, unknown>> extends Context<Settings> {
  stream: string
  sync: Sync
  encoding: Encoding
  columns: Column[] | null
  pages: readonly Page[]
}

/** What a load of these records would do. */
export interface LoadPreview {
  /** The columns that the records are written to, with the types that those have afterwards. */
  columns: Column[]
  /** What changes there, each in a few words: `creates table public.orders`. */
  changes: string[]
  /** What makes the load fail or lose something, each a sentence. */
  problems: string[]
}

/** The format of a run's output file. */
export interface OutputShape {
  format: 'jsonl' | 'csv' | 'parquet'
  compression: 'none' | 'gzip'
}

/** What a destination needs to build the output file of a run. */
export interface OutputContext<Settings = Record<string, unknown>> extends Context<Settings> {
  stream: string
  sync: Sync
  /** The columns that the source declared, if it knows them. */
  columns: Column[] | null
  /** All records of the run as pages of JSON lines, in order. They can be read any number of times. */
  readRecords(): AsyncIterable<Buffer>
  /** The file that the pipeline's last successful run built; null if there is none, or if this run starts over. */
  previous: PreviousOutput | null
  /** An empty folder for this run alone; the engine stores the file from there and removes the folder. */
  folder: string
  saveSchema(columns: Column[], changes: string[]): void
}

export interface PreviousOutput {
  run_id: string
  size: number
  read(): AsyncIterable<Buffer>
}

export interface BuiltOutput {
  /** In the folder of the context. */
  path: string
  extension: string
  content_type: string
}

export interface Destination<Settings extends TObject = TObject> extends Declaration<Settings> {
  kind: 'destination'
  capabilities: DestinationCapabilities
  /** Whether it needs the facts of all records, as files with typed columns do. Absent: it does not. */
  surveys?(config: Static<Settings>): boolean
  /** Whether its load can convert a table. Absent: it cannot. */
  tables?(config: Static<Settings>): boolean
  /** The output file that the settings ask for. Absent if the stage serves as the output unchanged. */
  output?(config: Static<Settings>): OutputShape
  /**
   * Builds the output file from the records and from the file of the last successful run, for `commits: 'output'`. Called
   * once everything was read. A run that fails or starts over changes nothing, because it builds a file of its own. Such a
   * pipeline always keeps its output.
   */
  buildOutput?(context: OutputContext<Static<Settings>>): Promise<BuiltOutput>
  /** As for a source. With a stream: its records can be written to the place that the settings name. */
  check(context: Context<Static<Settings>> & Checked): Promise<void>
  /**
   * Takes the mark for this attempt, so that older attempts no longer match it, and returns what was there before: the
   * mark of this run (resume), of an earlier run (its cursor is the state), or null. A destination without a mark
   * returns null; then our database fences, because a batch is saved there, conditionally on the attempt, before it is
   * sent.
   */
  fence(context: FenceContext<Static<Settings>>): Promise<Mark | null>
  /**
   * Looks at the target and says what a load would do there. It changes nothing, not even a mark, and locks nothing. Absent
   * if there is nothing to look at: every load makes a file of its own.
   */
  preview?(context: PreviewContext<Static<Settings>>): Promise<LoadPreview>
  /** Called once the reading is open, so that encoding and columns are known. */
  open(context: LoadContext<Static<Settings>>): Promise<Load>
}

export type Connector = Source | Destination

/**
 * A keyword `either` of a settings schema: sets of settings of which one is given. A form offers them as a choice; the
 * connector itself refuses two at once.
 */
export type Either = readonly { title: string; fields: readonly string[] }[]

/**
 * A keyword `cases` of a settings schema: one of its settings decides which others have a meaning. A form shows only those;
 * what is named in no case always applies.
 */
export interface Cases {
  by: string
  /** What an absent setting means. */
  otherwise?: string
  fields: Record<string, readonly string[]>
}

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

/** A copy with one more keyword. That it is optional is in a non-enumerable property (schema.ts), which a spread would lose. */
function marked<T extends TSchema>(schema: T, keyword: string): T {
  const copy = Object.create(Object.getPrototypeOf(schema), Object.getOwnPropertyDescriptors(schema))
  return Object.assign(copy, { [keyword]: true })
}
