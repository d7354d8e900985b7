import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { checkQuietHours, endOfQuietHours, type QuietHours, WEEKDAYS } from '../../src/alerts/quiet-hours.ts'
import { findReasonToWait, type SentAlert } from '../../src/alerts/waiting.ts'

const nights = (time_zone: string, more: Partial<QuietHours> = {}): QuietHours => ({
  from: '22:00',
  to: '07:00',
  time_zone,
  ...more,
})
const endOf = (hours: QuietHours, at: string) => {
  const end = endOfQuietHours(hours, Date.parse(at))
  return end === null ? null : new Date(end).toISOString().slice(0, 16)
}

describe('quiet hours', () => {
  test('go past midnight, by the clock of their time zone', () => {
    const hours = nights('Europe/Berlin')
    assert.equal(endOf(hours, '2026-06-10T19:59:59Z'), null)
    assert.equal(endOf(hours, '2026-06-10T20:00:00Z'), '2026-06-11T05:00')
    assert.equal(endOf(hours, '2026-06-11T04:59:59Z'), '2026-06-11T05:00')
    assert.equal(endOf(hours, '2026-06-11T05:00:00Z'), null)
    assert.equal(endOf(nights('Asia/Kolkata'), '2026-06-10T20:00:00Z'), '2026-06-11T01:30')
    assert.equal(endOf(nights('UTC', { from: '12:00', to: '13:30' }), '2026-06-10T12:15:00Z'), '2026-06-10T13:30')
  })

  test('end by the clock that is right at their end, when clocks change in the night', () => {
    assert.equal(endOf(nights('Europe/Berlin'), '2026-03-28T22:00:00Z'), '2026-03-29T05:00')
    assert.equal(endOf(nights('Europe/Berlin'), '2026-10-24T21:00:00Z'), '2026-10-25T06:00')
    assert.equal(endOf(nights('America/New_York'), '2026-03-08T05:00:00Z'), '2026-03-08T11:00')
    // 02:30 is skipped: they end when the clock goes from 02:00 to 03:00.
    assert.equal(endOf(nights('Europe/Berlin', { to: '02:30' }), '2026-03-28T23:30:00Z'), '2026-03-29T01:00')
    // 02:30 comes twice: what happens in the second hour waits for the second one.
    assert.equal(endOf(nights('Europe/Berlin', { to: '02:30' }), '2026-10-24T23:30:00Z'), '2026-10-25T00:30')
    assert.equal(endOf(nights('Europe/Berlin', { to: '02:30' }), '2026-10-25T01:15:00Z'), '2026-10-25T01:30')
    // Half an hour, and a zone whose day begins at one o'clock that night.
    assert.equal(endOf(nights('Australia/Lord_Howe'), '2026-10-03T14:00:00Z'), '2026-10-03T20:00')
    assert.equal(endOf(nights('America/Havana', { to: '00:30' }), '2026-03-08T04:30:00Z'), '2026-03-08T05:00')
  })

  test('belong to the day on which they begin', () => {
    const friday = nights('UTC', { days: ['fri'] })
    assert.equal(endOf(friday, '2026-06-12T23:00:00Z'), '2026-06-13T07:00')
    assert.equal(endOf(friday, '2026-06-13T06:00:00Z'), '2026-06-13T07:00')
    assert.equal(endOf(friday, '2026-06-12T06:00:00Z'), null)
    assert.equal(endOf(friday, '2026-06-13T23:00:00Z'), null)
  })

  test('may follow each other: a weekend ends on Monday', () => {
    const weekend = nights('Europe/Berlin', { from: '00:00', to: '24:00', days: ['sat', 'sun'] })
    assert.equal(endOf(weekend, '2026-06-13T10:00:00Z'), '2026-06-14T22:00')
    assert.equal(endOf(weekend, '2026-06-12T21:59:00Z'), null)
  })

  test('are refused if they leave no time, or name a zone that does not exist', () => {
    const refused: [Partial<QuietHours>, RegExp][] = [
      [{ from: '00:00', to: '24:00' }, /^quiet_hours\.days: leave no time/],
      [{ from: '00:00', to: '24:00', days: [...WEEKDAYS] }, /^quiet_hours\.days: leave no time/],
      [{ from: '22:00', to: '22:00' }, /^quiet_hours\.to: must differ/],
      [{ time_zone: 'Europe/Berln' }, /^quiet_hours\.time_zone: .*did you mean 'Europe\/Berlin'/],
      [{ time_zone: '+02:00' }, /^quiet_hours\.time_zone: there is no time zone/],
    ]
    for (const [more, sentence] of refused)
      assert.throws(() => checkQuietHours({ ...nights('UTC'), ...more }), { message: sentence })
  })

  test('end at the first minute that is not quiet, in every zone and at every time', () => {
    const time = fc
      .integer({ min: 0, max: 1439 })
      .map((minute) => `${String(Math.floor(minute / 60)).padStart(2, '0')}:${String(minute % 60).padStart(2, '0')}`)
    const hours = fc
      .record({
        from: time,
        to: time,
        time_zone: fc.constantFrom('UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kathmandu'),
        days: fc.subarray([...WEEKDAYS], { minLength: 1 }),
      })
      .filter(({ from, to }) => from !== to)
    const at = fc.integer({ min: Date.parse('2026-01-01') / 60_000, max: Date.parse('2027-01-01') / 60_000 })
    fc.assert(
      fc.property(hours, at, (quiet, minute) => {
        const end = endOfQuietHours(quiet, minute * 60_000)
        if (end === null) return
        assert.ok(end > minute * 60_000)
        assert.equal(endOfQuietHours(quiet, end), null)
        assert.notEqual(endOfQuietHours(quiet, end - 60_000), null)
      }),
      { numRuns: 300 },
    )
  })
})

describe('an alert in quiet hours', () => {
  const decide = (opened_at: string, closed_at: string | null, now: string) =>
    findReasonToWait({
      incident_id: 'x',
      quiet_hours: nights('UTC'),
      opened_at,
      closed_at,
      now: Date.parse(now),
    } as SentAlert)
  const [evening, night, later, morning] = [
    '2026-06-10T21:00:00Z',
    '2026-06-10T23:00:00Z',
    '2026-06-11T03:00:00Z',
    '2026-06-11T07:00:00Z',
  ]

  test('waits for their end', () => {
    assert.deepEqual(decide(night, null, night), { held_ms: 8 * 3600_000, error: null })
    assert.equal(decide(night, null, morning), null)
  })

  test('is not sent, nor its end, if both happened within them, whenever that is decided', () => {
    for (const now of [later, morning])
      assert.deepEqual(decide(night, later, now), { dropped: 'It began and ended within quiet hours' })
  })

  test('is sent with its end if one of them happened outside', () => {
    assert.equal(decide(evening, night, morning), null)
    assert.deepEqual(decide(evening, night, later), { held_ms: 4 * 3600_000, error: null })
    assert.equal(decide(later, morning, morning), null)
  })
})
