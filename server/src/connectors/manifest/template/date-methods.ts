/** Attributes and methods of dates, times and lengths of time. */
import { CalendarDate, DateTime, Delta } from '../dates/datetime.ts'
import { strftime } from '../dates/strftime.ts'
import { bind, numberArgument, textArgument } from './arguments.ts'
import { text } from './limits.ts'
import { dayOf } from './macros.ts'
import { Callable, float, type Named, TemplateError, type Value } from './values.ts'

type Timed = DateTime | CalendarDate | Delta
/** The member of a value, or null where values of its type have no such member. */
type Member = (self: Timed) => Value | null

const field =
  (name: 'year' | 'month' | 'day' | 'hour' | 'minute' | 'second' | 'micros', ofDay: boolean): Member =>
  (self) => {
    if (self instanceof DateTime) return self.fields[name]
    return ofDay && self instanceof CalendarDate ? self.fields[name] : null
  }

const method =
  (call: (self: DateTime | CalendarDate, args: Value[], named: Named) => Value): Member =>
  (self) =>
    self instanceof Delta ? null : new Callable((args, named) => call(self, args, named))

export const DATE_MEMBERS: Record<string, Member> = {
  year: field('year', true),
  month: field('month', true),
  day: field('day', true),
  hour: field('hour', false),
  minute: field('minute', false),
  second: field('second', false),
  microsecond: field('micros', false),
  strftime: method((self, [format]) => text(strftime(self, textArgument(format, 'format')))),
  isoformat: method((self, args, named) => {
    const [separator = 'T', timespec = 'auto'] = bind('isoformat', ['sep', 'timespec'], args, named)
    if (self instanceof CalendarDate) return self.toString()
    return self.iso(textArgument(separator, 'sep'), textArgument(timespec, 'timespec'))
  }),
  weekday: method((self) => weekday(self)),
  isoweekday: method((self) => weekday(self) + 1),
  replace: method(replaceFields),
  date: (self) => (self instanceof DateTime ? new Callable(() => dayOf(self)) : null),
  timestamp: (self) =>
    self instanceof DateTime ? new Callable(() => float(self.seconds + self.micros / 1_000_000)) : null,
  astimezone: (self) => (self instanceof DateTime ? new Callable(() => self.in(0)) : null),
  days: (self) => (self instanceof Delta ? Math.floor(self.seconds / 86_400) : null),
  seconds: (self) => (self instanceof Delta ? self.seconds - Math.floor(self.seconds / 86_400) * 86_400 : null),
  microseconds: (self) => (self instanceof Delta ? self.micros : null),
  total_seconds: (self) => (self instanceof Delta ? new Callable(() => float(self.totalSeconds)) : null),
}

/** Monday is 0. */
function weekday(self: DateTime | CalendarDate): number {
  const days = self instanceof DateTime ? dayOf(self).days : self.days
  return (((days + 3) % 7) + 7) % 7
}

const REPLACED = ['year', 'month', 'day', 'hour', 'minute', 'second', 'microsecond']

function replaceFields(self: DateTime | CalendarDate, args: Value[], named: Named): Value {
  const values = bind('replace', REPLACED, args, named)
  const given = (at: number, old: number): number =>
    values[at] === undefined ? old : numberArgument(values[at], REPLACED[at]!)
  const f = self.fields
  try {
    const [year, month, day] = [given(0, f.year), given(1, f.month), given(2, f.day)]
    if (self instanceof CalendarDate) return CalendarDate.fromFields(year, month, day)
    const clock = {
      hour: given(3, f.hour),
      minute: given(4, f.minute),
      second: given(5, f.second),
      micros: given(6, f.micros),
    }
    return DateTime.fromFields({ year, month, day, ...clock }, self.offset)
  } catch (error) {
    throw new TemplateError(error instanceof Error ? error.message : 'a date is out of range')
  }
}
