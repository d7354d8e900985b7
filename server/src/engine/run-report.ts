/** The sentences of a run's log: what is read, how much, how fast, and what the next run does. */

import { sumStored } from '../blobs/parts.ts'
import type { Endpoints } from './endpoints.ts'
import { describeChanges, describeOldRows } from './fingerprint.ts'
import type { Counts, Host, Job, Output } from './job.ts'
import type { Start } from './resume-point.ts'
import { formatBytes, formatCount, formatDuration, formatRate } from './sentences.ts'

const PROGRESS_MS = 200
const SENTENCE_MS = 10_000

interface RunReport {
  begin(start: Start): void
  progress(counts: Counts): void
  /** `refused`: what was put into the quarantine. */
  end(counts: Counts, output: Output | null, refused: string | null): void
}

export function createRunReport(job: Job, host: Host, { source, destination }: Endpoints): RunReport {
  const { log } = host
  const started = performance.now()
  let before = 0
  let lastProgress = 0
  let lastSentence = started

  /** Only rows that will be duplicated are worth a warning. */
  function tellChanges(changes: Start['changes']): void {
    if (changes.length === 0) return
    log.info(
      `${describeChanges(changes)} since the last run, so this run starts over: it reads the whole stream, without the old cursor and columns.`,
    )
    const rows = describeOldRows(changes, job.sync.write, destination)
    if (rows) log[rows.twice ? 'warn' : 'info'](rows.sentence)
  }

  function tellLost({ checkpoint, lost_checkpoints }: Start): void {
    const output = job.keep_output ? ' The run gets no output file, because it would be incomplete.' : ''
    const quarantine =
      job.sync.on_error === 'quarantine' ? ' Records that those checkpoints refused are missing in the quarantine.' : ''
    log.warn(
      `The destination has checkpoint ${checkpoint} of this run, which our database does not know of: it has lost ${formatCount(lost_checkpoints, 'checkpoint')}. The run continues from the destination's mark, so no row is lost or loaded twice.${output}${quarantine}`,
    )
  }

  return {
    begin(start) {
      before = start.records_read
      log.info(
        `Reading ${describePart(job)} ${job.source.stream} from ${source.display_name}, writing to ${destination.display_name} (${job.sync.write}).`,
      )
      const checkpoint = start.doubtful?.checkpoint ?? start.checkpoint
      if (start.published) log.info('An earlier attempt loaded everything; only finishing the run was left.')
      else if (checkpoint > 0) {
        log.info(
          `Resuming after checkpoint ${checkpoint}, with ${formatCount(start.records_read, 'record')} already loaded.`,
        )
      } else if (job.attempt > 1)
        log.info(`Attempt ${job.attempt} starts over: it cannot use anything from the earlier attempts.`)
      if (!start.published && checkpoint === 0) tellChanges(start.changes)
      if (start.other_settings && checkpoint === 0)
        log.info(
          'The settings of the source changed since the last run, and this run continues from its cursor. If they mean other data, delete the state of the pipeline.',
        )
      if (start.ahead && start.state !== null)
        log.info('The destination has rows that no finished run accounts for; this run continues from its mark.')
      if (start.lost_checkpoints > 0) tellLost(start)
    },

    progress(counts) {
      const now = performance.now()
      if (now - lastProgress < PROGRESS_MS) return
      lastProgress = now
      host.progress({ ...counts })
      if (now - lastSentence < SENTENCE_MS) return
      lastSentence = now
      const rate = formatRate(counts.records_read - before, now - started)
      log.info(`${formatCount(counts.records_read, 'record')} so far, ${rate}.`)
    },

    end(counts, output, refused) {
      host.progress({ ...counts })
      const ms = performance.now() - started
      const read = counts.records_read - before
      const how = read === 0 ? '' : `, ${formatRate(read, ms)}`
      log.info(
        `Read ${formatCount(counts.records_read, 'record')} (${formatBytes(counts.bytes_written)}) in ${formatDuration(ms)}${how}.`,
      )
      if (refused !== null) log.warn(refused)
      if (output)
        log.info(`The output is a ${output.extension} file of ${formatBytes(output.size)}${howStored(output)}.`)
      else if (!job.keep_output) log.info('No output is kept, as the pipeline requests.')
      if (job.resends || job.replays) return
      log.info(describeNext(job))
    },
  }
}

function describePart({ sync, range, replays }: Job): string {
  if (replays) return 'an earlier run of'
  if (range)
    return `a range of ${sync.cursor_field ?? 'the cursor'}, from ${range.from} up to but without ${range.to}, of`
  return sync.mode === 'incremental' ? 'what is new in' : 'all of'
}

function describeNext({ sync, range }: Job): string {
  if (range) return 'This was a back-fill: the next run continues from where the last one before it ended.'
  return sync.mode === 'incremental'
    ? 'The next run continues from here.'
    : 'The next run reads the whole stream again.'
}

/** What keeping it costs. */
function howStored({ parts, size }: Output): string {
  const stored = sumStored(parts)
  return stored === size ? '' : `, stored in ${formatBytes(stored)}`
}
