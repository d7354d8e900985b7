/**
 * Where a run starts. A **point** is what the engine stores as the cursor of a checkpoint, in the destination's mark and in
 * our own database. It holds more than the source's cursor, because it has two readers with different questions:
 *
 *   the next attempt of the same run   where to resume (`resume`), whether everything was read (`done`) and made
 *                                      visible (`published`: only the finish is missing)
 *   the next run                       what the destination has permanently (`state`)
 *
 * The two differ whenever rows are staged and published at the end: until then a failed run must not
 * move the state, or the rows it never published would be skipped forever. `run_id` and `seq` are those of the run that
 * wrote the point; a mark that was only fenced by a newer run still carries its writer's point.
 */
import { type Column, type Commits, ConnectorError, type Mark, type StageEncoding } from '../connectors/contract.ts'
import { readKeptColumns, type StoredColumn } from '../connectors/kept-columns.ts'
import type { Json } from '../json/json.ts'
import { type Change, type Fingerprint, findChanges, hasOtherSettings, readFingerprint } from './fingerprint.ts'
import type { Checkpoint, Counts, Job, Part } from './job.ts'

export interface Point {
  /** Null in points of older releases, which only had `seq`. */
  run_id: string | null
  seq: number
  /** What its cursors belong to. Null in points from before fingerprints existed. */
  fingerprint: Fingerprint | null
  encoding: StageEncoding
  /** Whether the reading that wrote it can resume from `resume`. */
  resumable: boolean
  resume: Json
  state: Json
  done: boolean
  published: boolean
  /** What had been transferred when it was written. */
  counts: Counts
  /** Only if batches may have to be resent: the attempt that began the reading, and the columns of its rows. */
  batch?: { reading: number; columns: Column[] | null }
}

/** How points spell `tsv`, so that an older worker which takes over a run during an upgrade can read them. */
const STORED_TSV = 'copy'

export function writePoint({ counts, encoding, batch, fingerprint, ...point }: Point): Json {
  return {
    sluice: 1,
    ...point,
    fingerprint: fingerprint && { ...fingerprint },
    encoding: encoding === 'tsv' ? STORED_TSV : encoding,
    counts: { ...counts },
    ...(batch && { batch: batch as unknown as Json }),
  }
}

/** Parses a stored point. Null if nothing was stored, or if something else wrote it. */
function readPoint(cursor: Json): Point | null {
  if (typeof cursor !== 'object' || cursor === null || Array.isArray(cursor) || cursor.sluice !== 1) return null
  const { run_id, seq, encoding, resumable, resume, state, done, published, counts, batch, fingerprint } = cursor
  if (typeof seq !== 'number') return null
  return {
    run_id: typeof run_id === 'string' ? run_id : null,
    seq,
    fingerprint: readFingerprint(fingerprint),
    encoding: readEncoding(encoding ?? null),
    resumable: resumable !== false,
    resume: resume ?? null,
    state: state ?? null,
    done: done === true,
    published: published === true,
    counts: readCounts(counts ?? null),
    ...(batch === undefined ? {} : { batch: readBatch(batch) }),
  }
}

function readEncoding(stored: Json): StageEncoding {
  if (stored === STORED_TSV || stored === 'tsv') return 'tsv'
  return stored === 'parquet' ? 'parquet' : 'ndjson'
}

/** Only ever comes from our own database. */
function readBatch(value: Json): NonNullable<Point['batch']> {
  const { reading, columns } = value as unknown as { reading: number; columns: StoredColumn[] | null }
  return { reading, columns: columns && readKeptColumns(columns) }
}

/** Comes back from the destination, so it is untrusted. */
function readCounts(value: Json): Counts {
  const given = typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {}
  const count = (name: keyof Counts): number => {
    const number = given[name]
    return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : 0
  }
  return {
    records_read: count('records_read'),
    records_written: count('records_written'),
    bytes_written: count('bytes_written'),
  }
}

/** A batch that was saved and may not have arrived: it is sent again unchanged. */
export interface DoubtfulBatch {
  checkpoint: number
  cursor: Json
  parts: Part[]
  columns: Column[] | null
}

export interface Start extends Counts {
  /**
   * The destination has more of this run than our database knows: it lost its last transactions, and with them the parts
   * that were staged. At least this many.
   */
  lost_checkpoints: number
  /** The destination has more of earlier runs than our database knows: the state is that of the mark. */
  ahead: boolean
  /** What changed since the state was saved: the state does not apply to this run, and everything is read. */
  changes: Change[]
  /** The state is used, although the settings of a custom source changed since. */
  other_settings: boolean
  /** The checkpoint that is already loaded; 0 at the start. */
  checkpoint: number
  encoding: StageEncoding | null
  resume: Json
  state: Json
  done: boolean
  published: boolean
  parts: Part[]
  /** The parts of the quarantine that belong to checkpoints that count. */
  quarantine: Part[]
  /** The checkpoint that this start goes on from, as it is saved with us. */
  saved: Pick<Checkpoint, 'checkpoint' | 'cursor' | 'parts'>
  /** The attempt that began the reading. */
  reading: number
  doubtful: DoubtfulBatch | null
}

/**
 * Decides where an attempt starts. The destination's mark was committed together with the data, so it wins over our
 * database: a checkpoint that was saved but not committed is read again, and its part is dropped from the list. Without
 * a mark, what was saved decides: it is all there is (`output`), or its last batch is sent again.
 */
export function decideStart(job: Job, mark: Mark | null, commits: Commits, resumable: boolean): Start {
  if (mark && isNewer(mark, job)) {
    throw new ConnectorError('destination', 'This attempt was fenced: a newer attempt owns the run.')
  }
  const cursor = (commits === 'mark' ? mark?.cursor : job.resume?.cursor) ?? null
  const checkpoint = (commits === 'mark' ? mark?.checkpoint : job.resume?.checkpoint) ?? 0
  const point = readPoint(cursor)
  const start = beginning(job, job.sync.mode === 'incremental' && !job.range ? decideState(job, point) : noState)
  if (!point || !isOfRun(point, job)) return start
  // If the last batch is saved, the source is not needed any more.
  const complete = commits === 'batch' && point.done
  const goesOn = checkpoint > 0 && ((resumable && point.resumable) || complete)
  if (!point.published && !goesOn) return start
  const parts = (job.resume?.parts ?? []).filter((part) => part.checkpoint <= checkpoint)
  const { encoding, resume, done, published } = point
  // Parts of a batch in doubt come again; what was refused while publishing is one further.
  const counted = commits === 'batch' ? checkpoint - 1 : published ? checkpoint + 1 : checkpoint
  const quarantine = (job.resume?.quarantine ?? []).filter((part) => part.checkpoint <= counted)
  const saved = { checkpoint, cursor, parts }
  const same = { ...start, ...point.counts, encoding, resume, done, published, parts, quarantine, saved }
  const lost_checkpoints = countLost(job, checkpoint, parts, point.counts)
  if (commits !== 'batch') return { ...same, checkpoint, lost_checkpoints, ahead: false }
  const { reading = job.attempt, columns = null } = point.batch ?? {}
  const last = parts.filter((part) => part.checkpoint === checkpoint)
  return { ...same, checkpoint: checkpoint - 1, reading, doubtful: { checkpoint, cursor, parts: last, columns } }
}

/**
 * An attempt that found checkpoints missing may have saved further ones before it was lost itself. Then the numbers agree,
 * and only the records tell that earlier parts are gone.
 */
function countLost(job: Job, checkpoint: number, parts: readonly Part[], counts: Counts): number {
  const missing = checkpoint - (job.resume?.checkpoint ?? 0)
  if (missing > 0 || !job.keep_output) return Math.max(0, missing)
  return parts.reduce((sum, part) => sum + part.records, 0) < counts.records_read ? 1 : 0
}

/** A number is unique only while the sequence never goes back, as it does after a restore. */
const isOfRun = ({ run_id, seq }: Pick<Point, 'run_id' | 'seq'>, job: Job): boolean =>
  run_id === null ? seq === job.seq : run_id === job.run_id

const isNewer = (mark: Mark, job: Job): boolean =>
  isOfRun(mark, job) ? mark.attempt > job.attempt : mark.seq >= job.seq

type State = Pick<Start, 'state' | 'changes' | 'ahead' | 'other_settings'>
const noState: State = { state: null, changes: [], ahead: false, other_settings: false }

function beginning(job: Job, { state, changes, ahead, other_settings }: State): Start {
  return {
    other_settings,
    changes,
    ahead,
    lost_checkpoints: 0,
    checkpoint: 0,
    encoding: null,
    resume: null,
    state,
    done: false,
    published: false,
    parts: [],
    quarantine: [],
    saved: { checkpoint: 0, cursor: null, parts: [] },
    reading: job.attempt,
    doubtful: null,
    records_read: 0,
    records_written: 0,
    bytes_written: 0,
  }
}

/**
 * The newer of what the destination has and what our database saved, if it belongs to what this run reads and writes. An
 * edit by hand that came after this run was triggered counts too, unless it was made for a config that came after it.
 */
function decideState(job: Job, marked: Point | null): State {
  const edit = job.state !== null && job.state.seq > job.seq
  const saved = edit && findChanges(job.state!.fingerprint, job.fingerprint).length > 0 ? null : job.state
  const ahead = marked !== null && marked.seq > (saved?.seq ?? -1)
  const newest = ahead ? marked : saved && { ...saved, state: saved.cursor }
  if (newest === null) return noState
  // A point from before fingerprints existed has the fingerprint of our own state, if that has one.
  const kept = newest.fingerprint ?? job.state?.fingerprint ?? null
  const changes = findChanges(kept, job.fingerprint)
  const other_settings = newest.state !== null && hasOtherSettings(kept, job.fingerprint)
  if (changes.length === 0) return { state: newest.state, changes, ahead, other_settings }
  return { ...noState, changes: newest.state === null ? [] : changes }
}
