/** Times, numbers and sizes as people read them, with the exact value on hover. */
import { useSyncExternalStore } from 'react'

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' })
const compact = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 })
const plain = new Intl.NumberFormat()

const STEPS = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
] as const

/** One clock for all times on a page: a timer per row would be thousands. */
let now = Date.now()
const watchers = new Set<() => void>()
setInterval(() => {
  now = Date.now()
  for (const watcher of watchers) watcher()
}, 10_000)

export function useNow(): number {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher)
      return () => watchers.delete(watcher)
    },
    () => now,
  )
}

export function Time({ at }: { at: string | null }) {
  const current = useNow()
  if (at === null) return <span className="faint">–</span>
  const date = new Date(at)
  return (
    <time dateTime={at} title={`${exact.format(date)}\n${at} UTC`.replace('Z UTC', ' UTC').replace('T', ' ')}>
      {sayRelative(date.getTime() - Math.max(current, Date.now()))}
    </time>
  )
}

function sayRelative(differenceMs: number): string {
  const seconds = Math.round(differenceMs / 1000)
  // "3 min ago": English puts a full stop behind what it shortens, which only disturbs a column of times.
  for (const [unit, size] of STEPS)
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit).replace(/\.(?= |$)/, '')
  return seconds < 0 ? 'just now' : seconds < 5 ? 'now' : `in ${seconds} s`
}

export function Count({ value }: { value: number }) {
  return (
    <span className="number" title={sayExactly(value)}>
      {sayCount(value)}
    </span>
  )
}

export function sayCount(value: number): string {
  return value < 10_000 ? plain.format(value) : compact.format(value)
}

export function sayExactly(value: number): string {
  return plain.format(value)
}

export function Duration({ from, to }: { from: string | null; to: string | null }) {
  const current = useNow()
  if (from === null) return <span className="faint">–</span>
  const ms = (to === null ? Math.max(current, Date.now()) : Date.parse(to)) - Date.parse(from)
  return <span className="number">{sayDuration(ms)}</span>
}

export function sayDuration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`
  const seconds = ms / 1000
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`
}

export function Size({ bytes }: { bytes: number }) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let value = bytes
  let unit = 0
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000
    unit += 1
  }
  return (
    <span className="number" title={`${plain.format(bytes)} bytes`}>
      {value.toFixed(value < 10 && unit > 0 ? 1 : 0)} {units[unit]}
    </span>
  )
}
