/** A chart over runs. Import it lazily: uPlot is only needed here. */
import { type KeyboardEvent, useEffect, useRef, useState } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import type { StripRun } from './queries.ts'
import styles from './run-chart.module.css'

interface Props {
  /** Those that have ended, oldest first. */
  runs: readonly StripRun[]
  quantity: 'duration' | 'records'
  onOpen(run: StripRun): void
}

const HEIGHT = 220
const when = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
const compact = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 })
const plain = new Intl.NumberFormat()

/** The arrow keys go from run to run, as a pointer does; Enter or a click opens the run. */
export default function RunChart({ runs, quantity, onOpen }: Props) {
  const box = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot | null>(null)
  const [at, setAt] = useState<number | null>(null)
  const theme = useTheme()
  const opened = useRef(onOpen)
  opened.current = onOpen

  useEffect(() => {
    const element = box.current!
    const plot = new uPlot(optionsOf(element, quantity, setAt), dataOf(runs, quantity), element)
    chart.current = plot
    const resized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }))
    resized.observe(element)
    return () => {
      resized.disconnect()
      plot.destroy()
    }
  }, [runs, quantity, theme])

  function press(event: KeyboardEvent) {
    const plot = chart.current!
    if (event.key === 'Enter' && at !== null) return opened.current(runs[at]!)
    const last = runs.length - 1
    const current = at ?? runs.length
    const to = { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: last }[event.key]
    if (to === undefined) return
    event.preventDefault()
    const next = Math.min(last, Math.max(0, to))
    plot.setCursor({ left: plot.valToPos(plot.data[0][next]!, 'x'), top: HEIGHT / 4 })
    setAt(next)
  }

  const run = at === null ? undefined : runs[at]
  return (
    <figure className={styles.figure}>
      <div
        ref={box}
        role="slider"
        tabIndex={0}
        className={styles.chart}
        aria-label={`${quantity === 'duration' ? 'Duration' : 'Records written'} of the last ${runs.length} runs, oldest first`}
        aria-valuemin={1}
        aria-valuemax={runs.length}
        aria-valuenow={(at ?? runs.length - 1) + 1}
        aria-valuetext={run ? sayRun(run, quantity) : 'No run is chosen'}
        onKeyDown={press}
        onClick={() => run && onOpen(run)}
      />
      <figcaption className={styles.caption}>
        {run ? `${sayRun(run, quantity)}. Click or press Enter to open it.` : 'Point at a run, or use the arrow keys.'}
      </figcaption>
    </figure>
  )
}

const secondsOf = ({ started_at, created_at, finished_at }: StripRun): number =>
  Math.max(0, Date.parse(finished_at!) - Date.parse(started_at ?? created_at)) / 1000

const amountOf = (run: StripRun, quantity: Props['quantity']): number =>
  quantity === 'duration' ? secondsOf(run) : run.records_written

/** One line through all runs, and one series of points for each state, so that each has its own mark. */
function dataOf(runs: readonly StripRun[], quantity: Props['quantity']): uPlot.AlignedData {
  const only = (wanted: (run: StripRun) => boolean) => runs.map((run) => (wanted(run) ? amountOf(run, quantity) : null))
  return [
    runs.map(({ created_at }) => Date.parse(created_at) / 1000),
    only(() => true),
    only(({ status }) => status === 'success'),
    only(({ status }) => status === 'failed'),
    only(({ status }) => status === 'cancelled'),
  ]
}

function optionsOf(
  element: HTMLElement,
  quantity: Props['quantity'],
  onMove: (at: number | null) => void,
): uPlot.Options {
  const style = getComputedStyle(element)
  const color = (name: string) => style.getPropertyValue(name).trim()
  const font = `12px ${color('--font')}`
  const axis = {
    stroke: color('--text-faint'),
    font,
    grid: { stroke: color('--line'), width: 1 },
    ticks: { show: false },
  }
  const marks = (stroke: string, paths?: uPlot.Series.Points.PathBuilder): uPlot.Series => ({
    stroke,
    width: 0,
    paths: () => null,
    points: { show: true, size: 6, stroke, fill: stroke, ...(paths && { paths }) },
  })
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 10 } },
    scales: { y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.1 : 1] } },
    axes: [
      { ...axis, values: sayTimes },
      { ...axis, size: 64, values: (_plot, splits) => splits.map((value) => sayValue(value, quantity)) },
    ],
    series: [
      {},
      { stroke: color('--gray-7'), width: 1, points: { show: false } },
      marks(color('--green-mark')),
      marks(color('--red-mark'), crosses),
      marks(color('--gray-8')),
    ],
    hooks: { setCursor: [({ cursor }) => onMove(cursor.idx ?? null)] },
  }
}

/** The mark of a failed run, which can be told from the others without colour. */
const crosses: uPlot.Series.Points.PathBuilder = (plot, series, first, last) => {
  const stroke = new Path2D()
  const reach = 4 * devicePixelRatio
  for (let at = first; at <= last; at++) {
    const value = plot.data[series]![at]
    if (value === null || value === undefined) continue
    const x = plot.valToPos(plot.data[0][at]!, 'x', true)
    const y = plot.valToPos(value, 'y', true)
    stroke.moveTo(x - reach, y - reach)
    stroke.lineTo(x + reach, y + reach)
    stroke.moveTo(x + reach, y - reach)
    stroke.lineTo(x - reach, y + reach)
  }
  return { stroke, fill: stroke, clip: null, flags: 1 | 2 }
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' })

/** The time of each line, and below it the day where one begins. */
function sayTimes(_plot: uPlot, splits: number[]): string[] {
  const isWide = (splits.at(-1) ?? 0) - (splits[0] ?? 0) > splits.length * 86_000
  return splits.map((split, index) => {
    const date = new Date(split * 1000)
    if (isWide) return day.format(date)
    const before = splits[index - 1]
    const begins = before === undefined || day.format(new Date(before * 1000)) !== day.format(date)
    return begins ? `${clock.format(date)}\n${day.format(date)}` : clock.format(date)
  })
}

function sayValue(value: number, quantity: Props['quantity']): string {
  if (quantity === 'records') return compact.format(value)
  if (value === 0) return '0'
  if (value < 1) return `${Math.round(value * 1000)} ms`
  if (value < 120) return `${compact.format(value)} s`
  return value < 7200 ? `${compact.format(value / 60)} min` : `${compact.format(value / 3600)} h`
}

function sayRun(run: StripRun, quantity: Props['quantity']): string {
  const value =
    quantity === 'duration' ? sayValue(secondsOf(run), quantity) : `${plain.format(run.records_written)} records`
  return `${when.format(new Date(run.created_at))}: ${value}, ${run.status}`
}

function useTheme(): string {
  const read = () => document.documentElement.dataset.theme ?? ''
  const [theme, setTheme] = useState(read)
  useEffect(() => {
    const watcher = new MutationObserver(() => setTheme(read()))
    watcher.observe(document.documentElement, { attributeFilter: ['data-theme'] })
    return () => watcher.disconnect()
  })
  return theme
}
