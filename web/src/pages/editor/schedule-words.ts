/** Common schedules as choices and in words. Anything else is cron, which the server checks. */
const REGULAR = ['minutes', 'hour', 'day', 'weekdays', 'week', 'month'] as const
export type Kind = (typeof REGULAR)[number] | 'manual' | 'cron'

export interface Regular {
  kind: (typeof REGULAR)[number]
  /** For `minutes`: how many lie between two runs. */
  every: number
  hour: number
  minute: number
  /** 0 is Sunday. */
  weekday: number
  day: number
}

export const WEEKDAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'] as const
export const EVERY = [5, 10, 15, 20, 30] as const
export const START: Regular = { kind: 'hour', every: 15, hour: 6, minute: 0, weekday: 1, day: 1 }

export function toCron({ kind, every, hour, minute, weekday, day }: Regular): string {
  switch (kind) {
    case 'minutes':
      return `*/${every} * * * *`
    case 'hour':
      return `${minute} * * * *`
    case 'day':
      return `${minute} ${hour} * * *`
    case 'weekdays':
      return `${minute} ${hour} * * 1-5`
    case 'week':
      return `${minute} ${hour} * * ${weekday}`
    case 'month':
      return `${minute} ${hour} ${day} * *`
  }
}

const SHAPES: [RegExp, Regular['kind'], (keyof Regular)[]][] = [
  [/^\*\/(5|10|15|20|30) \* \* \* \*$/, 'minutes', ['every']],
  [/^(\d+) \* \* \* \*$/, 'hour', ['minute']],
  [/^(\d+) (\d+) \* \* \*$/, 'day', ['minute', 'hour']],
  [/^(\d+) (\d+) \* \* 1-5$/, 'weekdays', ['minute', 'hour']],
  [/^(\d+) (\d+) \* \* ([0-6])$/, 'week', ['minute', 'hour', 'weekday']],
  [/^(\d+) (\d+) (\d+) \* \*$/, 'month', ['minute', 'hour', 'day']],
]

/** The choice that says the same, or null if it can only be written as cron. */
export function readCron(cron: string): Regular | null {
  for (const [shape, kind, fields] of SHAPES) {
    const found = shape.exec(cron.trim())
    if (!found) continue
    const values = Object.fromEntries(fields.map((field, index) => [field, Number(found[index + 1])]))
    const regular: Regular = { ...START, ...values, kind }
    const { minute, hour, day } = regular
    return minute <= 59 && hour <= 23 && day >= 1 && day <= 31 ? regular : null
  }
  return null
}

/** Begins a sentence: "Every day at 06:00". */
export function saySchedule(cron: string | null): string {
  if (!cron) return 'When started by hand'
  const regular = readCron(cron)
  if (!regular) return `At the times of “${cron}”`
  const { kind, every, hour, minute, weekday, day } = regular
  const at = `at ${pad(hour)}:${pad(minute)}`
  switch (kind) {
    case 'minutes':
      return `Every ${every} minutes`
    case 'hour':
      return minute === 0 ? 'Every hour' : `Every hour at ${minute} past`
    case 'day':
      return `Every day ${at}`
    case 'weekdays':
      return `Every weekday ${at}`
    case 'week':
      return `Every ${WEEKDAYS[weekday]} ${at}`
    case 'month':
      return `On day ${day} of every month ${at}`
  }
}

export const pad = (number: number): string => String(number).padStart(2, '0')
