/** Where an unfinished read goes on, as the cursor of a page holds it under `at`. */
import type { Json } from '../../json/json.ts'
import { ConnectorError } from '../contract.ts'
import type { CursorRange } from './cursor.ts'
import { type HighMark, NO_MARK } from './cursor-tracker.ts'
import { isFields } from './paths.ts'
import type { Fields } from './scope.ts'

export interface Position {
  /** The read began without a state. */
  fresh: boolean
  started: Date
  /** Of the partition (partitions.ts). */
  partition: Json
  range: CursorRange | null
  /** The interval's place in the range, and what is left of it where the API does not return all of its pages. */
  interval: number
  narrowed: Fields | null
  /** Of the page; null is the first. */
  token: Json
  /** Records of that page that were read already. */
  skip: number
  /** Records of the series before that page, where the API limits their number. */
  records: number
  /** The interval is read to its end. */
  ended: boolean
  mark: HighMark
  /** The export that is downloaded: what its creation answered, and which of its targets. */
  job: { created: Json; target: number } | null
}

/** Only what is not the usual is written: every page has one. */
export function writePosition({ started, mark, ...position }: Position): Fields {
  const { fresh, partition, range, interval, narrowed, token, skip, records, ended, job } = position
  return {
    started: started.toISOString(),
    ...(fresh ? { fresh } : {}),
    ...(partition === null ? {} : { partition }),
    ...(range === null ? {} : { range: { lower: range.lower, upper: range.upper } }),
    ...(interval === 0 ? {} : { interval }),
    ...(narrowed === null ? {} : { narrowed }),
    ...(token === null ? {} : { token }),
    ...(skip === 0 ? {} : { skip }),
    ...(records === 0 ? {} : { records }),
    ...(ended ? { ended } : {}),
    ...(mark.highest === null ? {} : { highest: mark.highest, tied: [...mark.tied] }),
    ...(job === null ? {} : { job: { ...job } }),
  }
}

/** Null if the cursor is that of a finished read. It was written here, but a person may have edited it. */
export function readPosition(cursor: Json): Position | null {
  const at = isFields(cursor) ? cursor.at : undefined
  if (at === undefined || at === null) return null
  const started = isFields(at) && typeof at.started === 'string' ? new Date(at.started) : null
  if (!isFields(at) || started === null || Number.isNaN(started.getTime()))
    throw new ConnectorError(
      'config',
      'The position in this state is damaged; remove `at` from it to read anew from its cursor.',
    )
  const { range, narrowed, job, tied } = at
  return {
    fresh: at.fresh === true,
    started,
    partition: at.partition ?? null,
    range: isFields(range) ? { lower: range.lower ?? null, upper: range.upper ?? null } : null,
    interval: countOf(at.interval),
    narrowed: isFields(narrowed) ? narrowed : null,
    token: at.token ?? null,
    skip: countOf(at.skip),
    records: countOf(at.records),
    ended: at.ended === true,
    mark:
      at.highest === undefined || at.highest === null
        ? NO_MARK
        : {
            highest: at.highest,
            tied: Array.isArray(tied) ? (tied.filter((hash) => typeof hash === 'string') as string[]) : [],
          },
    job: isFields(job) ? { created: job.created ?? null, target: countOf(job.target) } : null,
  }
}

const countOf = (value: Json | undefined): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0
