/** How far a run is and how fast it goes. How much there is to read is not known before, so the bar only moves. */
import type { Run } from './find.ts'
import { formatCount } from './words.ts'

/** The rate is that of this time, so that it shows a source that has become slow. */
const WINDOW_MS = 5000
const CELLS = 12
const BLOCK = 4

export interface Progress {
  add(run: Run): void
  now(): { records: number; bytes: number; perSecond: string; elapsedMs: number }
  /** Another one each time. */
  bar(): string
}

export function createProgress(): Progress {
  let samples: { at: number; records: number }[] = []
  let last: Run | null = null
  let frame = 0
  return {
    add(run) {
      const at = performance.now()
      // The count starts again with another attempt.
      if (last !== null && run.records_read < last.records_read) samples = []
      samples = [...samples.filter((each) => at - each.at < WINDOW_MS), { at, records: run.records_read }]
      last = run
    },
    now() {
      const [first, newest] = [samples[0], samples.at(-1)]
      const ms = first && newest ? newest.at - first.at : 0
      const rate = ms > 0 ? ((newest!.records - first!.records) * 1000) / ms : 0
      return {
        records: last?.records_read ?? 0,
        bytes: last?.bytes_written ?? 0,
        perSecond: formatCount(Math.round(rate)),
        elapsedMs: last?.started_at ? Math.max(0, Date.now() - Date.parse(last.started_at)) : 0,
      }
    },
    bar() {
      const travel = CELLS - BLOCK
      const step = frame++ % (travel * 2)
      const at = step < travel ? step : travel * 2 - step
      return `${'░'.repeat(at)}${'█'.repeat(BLOCK)}${'░'.repeat(travel - at)}`
    },
  }
}
