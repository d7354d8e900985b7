/** The last and the next 24 hours: a lane per pipeline, a bar per run, a ring for each time to come. */
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type KeyboardEvent, useState } from 'react'
import { Button } from '../../components/button.tsx'
import { Skeleton } from '../../components/notice.tsx'
import { sayDuration, useNow } from '../../components/quantities.tsx'
import { statusWord } from '../../components/status.tsx'
import { type Bar, type Lane, timelineQuery } from './queries.ts'
import styles from './timeline.module.css'

const SHOWN = 10
/** With more times than this, rings would overlap. */
const DENSE = 24
const HALF_MS = 24 * 3_600_000

export function Timeline() {
  const timeline = useQuery(timelineQuery)
  const [all, setAll] = useState(false)
  const [about, setAbout] = useState<string | null>(null)
  const now = useNow()
  const lanes = timeline.data?.pipelines.filter(({ runs, next_times }) => runs.length + next_times.length > 0) ?? []
  const shown = all ? lanes : lanes.slice(0, SHOWN)
  const scale = { now, toShare: (at: number) => ((at - (now - HALF_MS)) / (2 * HALF_MS)) * 100 }
  return (
    <section>
      <div className={styles.head}>
        <h2>Last and next 24 hours</h2>
        <p className={styles.about} aria-hidden="true">
          {about ?? <Legend />}
        </p>
      </div>
      {timeline.isPending && <Skeleton rows={6} height={28} />}
      {timeline.data && lanes.length === 0 && (
        <p className="faint">Nothing ran in the last day, and nothing is scheduled for the next.</p>
      )}
      {lanes.length > 0 && (
        // biome-ignore lint/a11y/noStaticElementInteractions: the links in it take the keys; arrows only move between them
        <div className={styles.timeline} onKeyDown={moveFocus}>
          <Axis scale={scale} />
          <ol>
            {shown.map((lane, index) => (
              <LaneRow key={lane.id} lane={lane} first={index === 0} scale={scale} onAbout={setAbout} />
            ))}
          </ol>
        </div>
      )}
      {lanes.length > SHOWN && (
        <Button look="quiet" onClick={() => setAll(!all)}>
          {all ? 'Show fewer' : `Show ${lanes.length - SHOWN} more`}
        </Button>
      )}
    </section>
  )
}

interface Scale {
  now: number
  /** Where a time is, in hundredths of the width. */
  toShare(at: number): number
}

interface LaneProps {
  lane: Lane
  /** The one stop of the tab key; arrows go on from there. */
  first: boolean
  scale: Scale
  onAbout(words: string | null): void
}

function LaneRow({ lane, first, scale, onAbout }: LaneProps) {
  const bars = lane.runs.filter(
    ({ finished_at }) => finished_at === null || Date.parse(finished_at) > scale.now - HALF_MS,
  )
  const lastTime = lane.next_times.at(-1)
  return (
    <li className={styles.lane}>
      <Link to="/pipelines/$id" params={{ id: lane.id }} className={styles.label} title={lane.name}>
        {lane.name}
      </Link>
      <div className={styles.track}>
        {bars.map((bar, index) => {
          const words = sayBar(lane, bar)
          return (
            <Link
              key={bar.id}
              to="/runs/$id"
              params={{ id: bar.id }}
              className={`${styles.bar} ${styles[bar.status]}`}
              style={placeOf(bar, scale)}
              aria-label={words}
              title={words}
              tabIndex={first && index === bars.length - 1 ? 0 : -1}
              data-bar=""
              onPointerEnter={() => onAbout(words)}
              onPointerLeave={() => onAbout(null)}
              onFocus={() => onAbout(words)}
              onBlur={() => onAbout(null)}
            />
          )
        })}
        {lane.next_times.map((time) => (
          <span
            key={time}
            className={`${styles.next} ${lane.next_times.length > DENSE ? styles.dense : ''}`}
            style={{ left: `${scale.toShare(Date.parse(time))}%` }}
            title={`${lane.name}: next at ${clock.format(new Date(time))}`}
          />
        ))}
        {lane.more_times && lastTime && (
          <span className={styles.further} style={{ left: `${scale.toShare(Date.parse(lastTime))}%` }} />
        )}
      </div>
    </li>
  )
}

function placeOf(bar: Bar, { now, toShare }: Scale) {
  const from = Math.max(0, toShare(Date.parse(bar.started_at)))
  const to = toShare(bar.finished_at === null ? now : Date.parse(bar.finished_at))
  return { left: `${from}%`, width: `${Math.max(0, to - from)}%` }
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })

function sayBar(lane: Lane, { status, started_at, finished_at, runs }: Bar): string {
  const from = clock.format(new Date(started_at))
  const took =
    finished_at === null
      ? ''
      : `, ${runs > 1 ? 'until ' : ''}${runs > 1 ? clock.format(new Date(finished_at)) : sayDuration(Date.parse(finished_at) - Date.parse(started_at))}`
  const several = runs > 1 ? `, ${runs} runs` : ''
  return `${lane.name}: ${statusWord(status).toLowerCase()} at ${from}${took}${several}`
}

/** Every six hours of the viewer's clock; not in the first and last hour, where a label would leave the page. */
function Axis({ scale }: { scale: Scale }) {
  const first = new Date(scale.now - HALF_MS)
  first.setMinutes(0, 0, 0)
  const ticks: number[] = []
  for (let at = first.getTime(); at < scale.now + HALF_MS - 3_600_000; at += 3_600_000)
    if (at > scale.now - HALF_MS + 3_600_000 && new Date(at).getHours() % 6 === 0) ticks.push(at)
  return (
    <div className={styles.axis} aria-hidden="true">
      <div className={styles.scale}>
        {ticks.map((at) => (
          <span key={at} className={styles.tick} style={{ left: `${scale.toShare(at)}%` }}>
            {Math.abs(at - scale.now) > 2 * 3_600_000 && <span>{clock.format(new Date(at))}</span>}
          </span>
        ))}
        <span className={styles.now}>
          <span>now</span>
        </span>
      </div>
    </div>
  )
}

function Legend() {
  return (
    <span className={styles.legend}>
      {(['success', 'failed', 'running', 'cancelled'] as const).map((status) => (
        <span key={status}>
          <span className={`${styles.bar} ${styles[status]}`} /> {statusWord(status).toLowerCase()}
        </span>
      ))}
      <span>
        <span className={styles.next} /> scheduled
      </span>
    </span>
  )
}

/** Left and right within a lane, up and down to the run nearest in time of the next one. */
function moveFocus(event: KeyboardEvent<HTMLElement>): void {
  const { key, currentTarget } = event
  const from = document.activeElement
  if (!(from instanceof HTMLElement) || from.dataset.bar === undefined || !key.startsWith('Arrow')) return
  event.preventDefault()
  if (key === 'ArrowLeft' || key === 'ArrowRight') {
    const to = key === 'ArrowLeft' ? from.previousElementSibling : from.nextElementSibling
    if (to instanceof HTMLElement && to.dataset.bar !== undefined) to.focus()
    return
  }
  const tracks = [...currentTarget.querySelectorAll(`.${styles.track}`)].filter((track) =>
    track.querySelector('[data-bar]'),
  )
  const track = tracks[tracks.indexOf(from.parentElement!) + (key === 'ArrowDown' ? 1 : -1)]
  const x = from.getBoundingClientRect().left
  const bars = [...(track?.querySelectorAll<HTMLElement>('[data-bar]') ?? [])]
  const distance = (bar: HTMLElement) => Math.abs(bar.getBoundingClientRect().left - x)
  bars.sort((one, other) => distance(one) - distance(other))[0]?.focus()
}
