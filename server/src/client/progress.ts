/** How far a run is and how fast it goes. How much there is to read is not known before, so the bar only moves. */
import type { Run } from './find.ts'
import type { Part } from './output.ts'
import { cutTo, widthOf } from './text-width.ts'
import { formatBytes, formatCount, formatDuration, plural, showStatus } from './words.ts'

/** The rate is that of this time, so that it shows a source that has become slow. */
const WINDOW_MS = 5000
const CELLS = 12
const BLOCK = 4

export interface Figures {
  records: number
  bytes: number
  recordsPerSecond: number
  bytesPerSecond: number
  elapsedMs: number
}

export interface Progress {
  add(run: Pick<Run, 'status' | 'records_read' | 'bytes_written'>): void
  now(): Figures
  /** Another one each time. */
  bar(): string
}

/** By the clock of this machine alone: that of the service may differ. */
export function createProgress(clock: () => number = () => performance.now()): Progress {
  let samples: { at: number; records: number; bytes: number }[] = []
  let startedAt: number | null = null
  let frame = 0
  return {
    add({ status, records_read: records, bytes_written: bytes }) {
      const at = clock()
      if (status !== 'pending') startedAt ??= at
      const last = samples.at(-1)
      // The count starts again with another attempt.
      if (last && (records < last.records || bytes < last.bytes)) samples = []
      samples = [...samples.filter((each) => at - each.at <= WINDOW_MS), { at, records, bytes }]
    },
    now() {
      const [first, newest] = [samples[0], samples.at(-1)]
      const seconds = first && newest ? (newest.at - first.at) / 1000 : 0
      const rate = (count: (sample: (typeof samples)[0]) => number) =>
        seconds > 0 ? (count(newest!) - count(first!)) / seconds : 0
      return {
        records: newest?.records ?? 0,
        bytes: newest?.bytes ?? 0,
        recordsPerSecond: rate(({ records }) => records),
        bytesPerSecond: rate(({ bytes }) => bytes),
        elapsedMs: startedAt === null ? 0 : clock() - startedAt,
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

const formatRate = (perSecond: number): string =>
  perSecond > 0 && perSecond < 9.95 ? perSecond.toFixed(1) : formatCount(Math.round(perSecond))

/** The most telling first: for a line of text, and for terminals that are less and less wide. */
export function describeFigures(figures: Figures): string[] {
  const [records, bytes] = [plural(figures.records, 'record'), formatBytes(figures.bytes)]
  const [rate, elapsed] = [formatRate(figures.recordsPerSecond), formatDuration(figures.elapsedMs)]
  return [
    [records, bytes, `${rate} records/s`, `${formatBytes(figures.bytesPerSecond)}/s`, elapsed],
    [records, bytes, `${rate} records/s`, elapsed],
    [records, bytes, `${rate}/s`, elapsed],
    [records, `${rate}/s`, elapsed],
    [records, elapsed],
    [elapsed],
  ].map((parts) => parts.join(', '))
}

/** One line that is less wide than the terminal: first figures are left out, then the bar, then the name is cut. */
export function layOutProgress(
  { bar, name, status }: { bar: string; name: string; status: string },
  figures: Figures,
  width: number,
): Part[] {
  const room = width - 1
  const choices = describeFigures(figures)
  const tail = (text: string) => `: ${status} ${text}`
  const fits = (head: string, text: string) => widthOf(head) + widthOf(name) + widthOf(tail(text)) <= room
  for (const head of [`${bar} `, ''])
    for (const text of choices)
      if (fits(head, text)) return [{ style: 'cyan', text: head }, `${name}: `, showStatus(status), ` ${text}`]
  const shortest = choices.at(-1)!
  const left = room - widthOf(tail(shortest))
  if (left > 0) return [`${cutTo(name, left)}: `, showStatus(status), ` ${shortest}`]
  return [cutTo(`${status} ${shortest}`, Math.max(0, room))]
}
