import { useNavigate } from '@tanstack/react-router'
import { memo } from 'react'
import type { StripRun } from './queries.ts'
import styles from './run-strip.module.css'

const BARS = 20
const STEP = 6
const WIDTH = 4
const HEIGHT = 20
const LEAST = 4

/**
 * The last runs as bars, the newest at the right. The height is the duration among these runs; the shape tells the state
 * without colour: a success is a whole bar, a failure has a gap below its top, a cancelled run is hollow, one that has not
 * ended is open above.
 */
export const RunStrip = memo(function RunStrip({ runs }: { runs: readonly StripRun[] | undefined }) {
  const navigate = useNavigate()
  if (runs === undefined) return <span className={styles.waiting} aria-hidden="true" />
  if (runs.length === 0) return <span className="faint">–</span>
  const longest = Math.max(...runs.map(secondsOf), 0.001)
  return (
    <svg className={styles.strip} width={BARS * STEP} height={HEIGHT} role="img" aria-label={sayRuns(runs)}>
      {runs.slice(0, BARS).map((run, at) => (
        // biome-ignore lint/a11y/noStaticElementInteractions: a shortcut for the pointer; the runs have a page with links
        <g
          key={run.id}
          className={`${styles.bar} ${styles[run.status]}`}
          onClick={() => navigate({ to: '/runs/$id', params: { id: run.id } })}
        >
          <title>{sayRun(run)}</title>
          <rect className={styles.area} x={(BARS - 1 - at) * STEP} y={0} width={STEP} height={HEIGHT} />
          <Bar run={run} x={(BARS - 1 - at) * STEP} height={heightOf(run, longest)} />
        </g>
      ))}
    </svg>
  )
})

function Bar({ run: { status }, x, height }: { run: StripRun; x: number; height: number }) {
  const top = HEIGHT - height
  if (status === 'failed')
    return (
      <>
        <rect x={x} y={top} width={WIDTH} height={2} />
        <rect x={x} y={top + 3} width={WIDTH} height={Math.max(1, height - 3)} />
      </>
    )
  if (status === 'cancelled') return <rect x={x + 0.5} y={top + 0.5} width={WIDTH - 1} height={height - 1} />
  if (status === 'success') return <rect x={x} y={top} width={WIDTH} height={height} />
  return <path d={`M${x + 0.5} ${top}v${height - 0.5}h${WIDTH - 1}v${-(height - 0.5)}`} />
}

const secondsOf = ({ started_at, finished_at }: StripRun): number =>
  started_at === null || finished_at === null ? 0 : (Date.parse(finished_at) - Date.parse(started_at)) / 1000

function heightOf(run: StripRun, longest: number): number {
  if (run.finished_at === null) return HEIGHT / 2
  return Math.max(LEAST, Math.round((secondsOf(run) / longest) * HEIGHT))
}

const when = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

function sayRun(run: StripRun): string {
  const lasted = run.finished_at === null ? '' : `, ${secondsOf(run).toFixed(1)} s`
  return `${run.status}${lasted}, ${when.format(new Date(run.created_at))}`
}

function sayRuns(runs: readonly StripRun[]): string {
  const counts = new Map<string, number>()
  for (const { status } of runs) counts.set(status, (counts.get(status) ?? 0) + 1)
  const words = [...counts].map(([status, count]) => `${count} ${status}`)
  return `Last ${runs.length} runs: ${words.join(', ')}. The newest: ${sayRun(runs[0]!)}`
}
