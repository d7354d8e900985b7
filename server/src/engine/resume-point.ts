/**
 * Where a run begins. A **point** is what the engine keeps as the cursor of a checkpoint, in the destination's mark and in
 * our own database. It says more than a source's cursor, for two readers ask different things of it:
 *
 *   the next attempt of the same run   where do I go on (`resume`), was everything read (`done`), and was it made
 *                                      visible (`published`: only the finish is missing)
 *   the next run                       what has the destination for good (`state`)
 *
 * The two part ways whenever rows are loaded beside the old data and shown at the end: until then a failed run must not
 * move the state, or the rows it never showed would be skipped for ever. `seq` is the run that wrote the point; a mark
 * that was only fenced by a newer run still carries its writer's point.
 */
import { ConnectorError, type Encoding, type Mark } from '../connectors/contract.ts'
import type { Json } from '../json/json.ts'
import type { Counts, Job, Part } from './job.ts'

export interface Point {
  seq: number
  encoding: Encoding
  /** Whether the reading that wrote it can go on from `resume`. */
  resumable: boolean
  resume: Json
  state: Json
  done: boolean
  published: boolean
  /** What had been moved when it was written. */
  counts: Counts
}

/** What points call `tsv`, so that an older worker which takes a run over during an upgrade reads them too. */
const STORED_TSV = 'copy'

export function writePoint({ counts, encoding, ...point }: Point): Json {
  return { sluice: 1, ...point, encoding: encoding === 'tsv' ? STORED_TSV : encoding, counts: { ...counts } }
}

/** Reads a point back. Null where nothing was kept, or where it is none of ours. */
export function readPoint(cursor: Json): Point | null {
  if (typeof cursor !== 'object' || cursor === null || Array.isArray(cursor) || cursor.sluice !== 1) return null
  const { seq, encoding, resumable, resume, state, done, published, counts } = cursor
  if (typeof seq !== 'number') return null
  return {
    seq,
    encoding: encoding === STORED_TSV || encoding === 'tsv' ? 'tsv' : 'ndjson',
    resumable: resumable !== false,
    resume: resume ?? null,
    state: state ?? null,
    done: done === true,
    published: published === true,
    counts: readCounts(counts ?? null),
  }
}

/** They come back from the destination, which may say anything. */
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

export interface Start extends Counts {
  /** The checkpoint that is already in; 0 at the beginning. */
  checkpoint: number
  encoding: Encoding | null
  resume: Json
  state: Json
  done: boolean
  published: boolean
  parts: Part[]
}

/**
 * Decides where an attempt begins. The destination's mark was committed together with the data, so it wins over what our
 * database saved: a checkpoint that was saved but not committed is read again, and its part dropped from the list. Where
 * the output is all there is, the saved checkpoint is the mark.
 */
export function decideStart(job: Job, mark: Mark | null, commits: 'mark' | 'output', resumable: boolean): Start {
  if (mark && (mark.seq > job.seq || (mark.seq === job.seq && mark.attempt > job.attempt))) {
    throw new ConnectorError('internal', 'This attempt was fenced: a newer one has the run.')
  }
  const marked = readPoint(commits === 'mark' ? (mark?.cursor ?? null) : (job.resume?.cursor ?? null))
  const checkpoint = (commits === 'mark' ? mark?.checkpoint : job.resume?.checkpoint) ?? 0
  const state = job.sync.mode === 'incremental' ? decideState(job, marked) : null
  const beginning: Start = {
    checkpoint: 0,
    encoding: null,
    resume: null,
    state,
    done: false,
    published: false,
    parts: [],
    records_read: 0,
    records_written: 0,
    bytes_written: 0,
  }
  if (!marked || marked.seq !== job.seq) return beginning
  if (!marked.published && (checkpoint === 0 || !resumable || !marked.resumable)) return beginning
  const parts = (job.resume?.parts ?? []).filter((part) => part.checkpoint <= checkpoint)
  return {
    ...beginning,
    ...marked.counts,
    checkpoint,
    encoding: marked.encoding,
    resume: marked.resume,
    done: marked.done,
    published: marked.published,
    parts,
  }
}

/** The newer of what the destination has and what our database saved. */
function decideState(job: Job, marked: Point | null): Json {
  if (marked && marked.seq > (job.state?.seq ?? -1)) return marked.state
  return job.state?.cursor ?? null
}
