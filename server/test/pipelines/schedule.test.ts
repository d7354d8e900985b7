import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Cron } from 'croner'
import { checkSchedule, checkTimezone, nextTimes } from '../../src/pipelines/schedule.ts'

const times = (schedule: string, timezone: string | null, from: string, count = 3) =>
  nextTimes(schedule, timezone, new Date(from), { count }).map((time) => time.toISOString().slice(0, 16))
const check = (schedule: string, timezone: string | null = null) =>
  checkSchedule(schedule, timezone, new Date('2026-01-01T00:00:00Z'))

test('lists, ranges, steps, names and both Sundays are supported', () => {
  assert.deepEqual(times('0,30 8-9 * * *', null, '2026-01-01T08:15:00Z'), [
    '2026-01-01T08:30',
    '2026-01-01T09:00',
    '2026-01-01T09:30',
  ])
  assert.deepEqual(times('*/20 0 1 * *', null, '2026-01-01T00:00:00Z'), [
    '2026-01-01T00:20',
    '2026-01-01T00:40',
    '2026-02-01T00:00',
  ])
  assert.deepEqual(times('0 6 * FEB-mar mon', null, '2026-01-01T00:00:00Z', 2), [
    '2026-02-02T06:00',
    '2026-02-09T06:00',
  ])
  assert.deepEqual(times('0 0 * * 0', null, '2026-01-01T00:00:00Z'), times('0 0 * * 7', null, '2026-01-01T00:00:00Z'))
})

test('a day of the month or a day of the week matches when both are given', () => {
  assert.deepEqual(times('0 0 13 * 5', null, '2026-04-01T00:00:00Z', 4), [
    '2026-04-03T00:00',
    '2026-04-10T00:00',
    '2026-04-13T00:00',
    '2026-04-17T00:00',
  ])
})

test('29 February waits for a leap year', () => {
  assert.deepEqual(times('0 0 29 2 *', null, '2026-01-01T00:00:00Z', 2), ['2028-02-29T00:00', '2032-02-29T00:00'])
})

test('a fixed time that the clock skips fires at the first moment after the gap', () => {
  assert.deepEqual(times('30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z'), [
    '2026-03-29T01:00',
    '2026-03-30T00:30',
    '2026-03-31T00:30',
  ])
})

test('a fixed time that occurs twice fires once, the first time', () => {
  assert.deepEqual(times('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z'), [
    '2026-10-25T00:30',
    '2026-10-26T01:30',
    '2026-10-27T01:30',
  ])
})

test('a repeating schedule continues evenly through both changes', () => {
  assert.deepEqual(times('*/30 * * * *', 'Europe/Berlin', '2026-03-29T00:15:00Z', 4), [
    '2026-03-29T00:30',
    '2026-03-29T01:00',
    '2026-03-29T01:30',
    '2026-03-29T02:00',
  ])
  assert.deepEqual(times('*/30 * * * *', 'Europe/Berlin', '2026-10-24T23:45:00Z', 6), [
    '2026-10-25T00:00',
    '2026-10-25T00:30',
    '2026-10-25T01:00',
    '2026-10-25T01:30',
    '2026-10-25T02:00',
    '2026-10-25T02:30',
  ])
})

test('a change of half an hour is handled like one of a whole hour', () => {
  assert.deepEqual(times('15 2 * * *', 'Australia/Lord_Howe', '2026-10-03T00:00:00Z', 2), [
    '2026-10-03T15:30',
    '2026-10-04T15:15',
  ])
})

test('an invalid schedule is refused with a clear message', () => {
  for (const [schedule, sentence] of [
    ['* * * * * *', /five fields/],
    ['* * * *', /five fields/],
    ['@daily', /five fields/],
    ['0 0 L * *', /does not accept the name/],
    ['0 0 ? * *', /not allowed/],
    ['0 0 * * MON#2', /not allowed/],
    ['MON 0 * * *', /does not accept the name/],
    ['0 0 * foo *', /does not accept the name/],
    ['60 * * * *', /the minute must be 0 to 59, not 60/],
    ['0 1,24 * * *', /the hour must be 0 to 23, not 24/],
    ['0 0 0 * *', /the day of the month must be 1 to 31, not 0/],
    ['0 0 * 1-13 *', /the month must be 1 to 12, not 13/],
    ['0 0 * * 8', /the day of the week must be 0 to 7, not 8/],
    ['10-5 * * * *', /larger/],
    ['*/61 * * * *', /steps/],
    ['5/15 * * * *', /not allowed/],
    [',', /five fields/],
    [', * * * *', /empty/],
    ['0 0 31 2 *', /never fires/],
    ['0 0 30-31 2 *', /never fires/],
    ['0 0 31 4,6,9,11 *', /never fires/],
  ] as const)
    assert.throws(() => check(schedule), { name: 'AppError', code: 'invalid_input', message: sentence }, schedule)
})

test('a schedule that never fires is refused without searching the calendar, and no other schedule is', () => {
  const before = process.cpuUsage()
  for (let time = 0; time < 100; time++) assert.throws(() => check('* * 31 2,4,6,9,11 *'), /never fires/)
  const { user, system } = process.cpuUsage(before)
  assert.ok(user + system < 500_000, `100 of them took ${(user + system) / 1000} ms`)
  const days = ['*', '29', '30', '31', '30-31', '*/29', '*/30', '30-31/2', '1,31', '28-31', '1-31/30']
  const months = ['*', '2', 'FEB', 'apr,Jun', '2,4,6,9,11', '*/2', '2-4', 'feb-mar', '2-12/2', '1']
  for (const weekday of ['*', '1', '*/1', '0-7', 'MON'])
    for (const day of days)
      for (const month of months) {
        const schedule = `0 0 ${day} ${month} ${weekday}`
        const cron = new Cron(schedule, { mode: '5-part', paused: true, utcOffset: 0 })
        const next = cron.nextRun(new Date('2026-01-01T00:00:00Z'))
        assert.deepEqual(
          nextTimes(schedule, null, new Date('2026-01-01T00:00:00Z'), { count: 1 }),
          next ? [next] : [],
          schedule,
        )
      }
})

test('a time zone that does not exist is refused, with a suggestion', () => {
  assert.throws(() => checkTimezone('Europe/Berln'), { message: /did you mean 'Europe\/Berlin'/ })
  for (const zone of ['Mars/Olympus', '+02:00', '', ' ', '../../etc/passwd'])
    assert.throws(() => checkTimezone(zone), zone)
  checkTimezone('America/Argentina/Buenos_Aires')
  checkTimezone('UTC')
})

test('no time is searched beyond the end', () => {
  const from = new Date('2026-03-01T12:00:00Z')
  const until = Date.parse('2026-03-02T12:00:00Z')
  const texts = (schedule: string) =>
    nextTimes(schedule, null, from, { count: 5, until }).map((time) => time.toISOString().slice(0, 16))
  assert.deepEqual(texts('0 6 * * *'), ['2026-03-02T06:00'])
  assert.deepEqual(texts('0 12 * * *'), [])
  assert.equal(texts('* * * * *').length, 5)
})
