/** Clamping: pieces of a range begin and end with a day, a week or a month. */
import { type Component, isDict, optionalComponent, text } from '../component.ts'
import { DateTime, Delta } from '../dates/datetime.ts'
import { Unsupported } from '../problems.ts'
import { dayOf } from '../template/macros.ts'
import { type Site, settingText } from './templates.ts'

export interface Clamping {
  /** The first boundary at or after a moment. */
  clamp(time: DateTime): DateTime
  /** The end of the last whole unit before a moment. */
  end(time: DateTime): DateTime
}

const DAY = 86_400
const WEEKDAYS = ['MONDAY', 'TUESDAY', 'WEDNESDAY', 'THURSDAY', 'FRIDAY', 'SATURDAY', 'SUNDAY']

export function clampOf(cursor: Component, site: Site): Clamping | null {
  const clamping = optionalComponent({ type: cursor.type, clamping: clampingOf(cursor) }, 'clamping')
  if (clamping === null) return null
  const target = settingText(text(clamping, 'target'), site)
  if (site.environment.checking && target.includes('{{')) return null
  const floor = floorOf(target, clamping)
  return {
    clamp: (time) => {
      const start = floor(time)
      return start.compare(time) === 0 ? start : floor(nextUnit(target, start))
    },
    end: (time) => floor(time),
  }
}

function clampingOf(cursor: Component): Component | null {
  return isDict(cursor.clamping) ? ({ type: 'Clamping', ...cursor.clamping } as Component) : null
}

function floorOf(target: string, clamping: Component): (time: DateTime) => DateTime {
  const midnight = (days: number, time: DateTime): DateTime =>
    new DateTime(days * DAY - (time.offset ?? 0), 0, time.offset)
  if (target === 'DAY') return (time) => midnight(dayOf(time).days, time)
  if (target === 'MONTH') return (time) => midnight(dayOf(time).days - time.fields.day + 1, time)
  if (target !== 'WEEK') throw new Unsupported(`Clamping.target ${target} is unknown`)
  const details = clamping.target_details
  const weekday = WEEKDAYS.indexOf(isDict(details) ? String(details.weekday) : '')
  if (weekday === -1) throw new Unsupported('Clamping.target_details has no weekday')
  return (time) => {
    const { days } = dayOf(time)
    return midnight(days - ((((days + 3 - weekday) % 7) + 7) % 7), time)
  }
}

function nextUnit(target: string, start: DateTime): DateTime {
  if (target === 'MONTH') return start.plusMonths(1)
  return start.plus(new Delta((target === 'DAY' ? 1 : 7) * DAY, 0))
}
