/** Numbers, times and statuses as people read them. */
import type { Part, Styled } from './output.ts'

/** Not toLocaleString, which loads tables of all languages first: longer than a command takes. */
export const formatCount = (count: number): string => String(count).replace(/\B(?=(\d{3})+$)/g, ',')

export const plural = (count: number, word: string): string => `${formatCount(count)} ${word}${count === 1 ? '' : 's'}`

export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let [value, unit] = [bytes, 0]
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000
    unit++
  }
  return `${unit === 0 || value >= 99.95 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}

export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`
  const seconds = Math.floor(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`
}

/** In the zone of the reader's machine. */
export function formatTime(time: string | null): string {
  if (time === null) return '–'
  const date = new Date(time)
  if (Number.isNaN(date.getTime())) return time
  const two = (value: number) => String(value).padStart(2, '0')
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
}

export const STATUSES = ['pending', 'running', 'success', 'failed', 'cancelled'] as const

const STYLES: Record<string, Styled['style']> = {
  success: 'green',
  failed: 'red',
  cancelled: 'yellow',
  running: 'cyan',
  pending: 'blue',
}

export function showStatus(status: string | null): Part {
  if (status === null) return '–'
  const style = Object.hasOwn(STYLES, status) ? STYLES[status] : undefined
  return style === undefined ? status : { style, text: status }
}
