/** Date formats read and write what Python's strptime and strftime do, and Airbyte's own formats. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatTime, timeFormat } from '../../../src/connectors/manifest/dates/format.ts'
import { parseDuration, parseIso } from '../../../src/connectors/manifest/dates/iso.ts'
import { compileStrptime } from '../../../src/connectors/manifest/dates/strptime.ts'

/** A format, a text, and the same moment as ISO 8601; null where the text is not of that format. */
const READ: Array<[string, string, string | null]> = [
  ['%Y-%m-%d', '2024-02-29', '2024-02-29T00:00:00+00:00'],
  ['%Y-%m-%d', '2023-02-29', null],
  ['%Y-%m-%dT%H:%M:%SZ', '2024-01-02T03:04:05Z', '2024-01-02T03:04:05+00:00'],
  ['%Y-%m-%dT%H:%M:%S.%fZ', '2024-01-02T03:04:05.12Z', '2024-01-02T03:04:05.120000+00:00'],
  ['%Y-%m-%dT%H:%M:%S%z', '2024-01-02T03:04:05+02:00', '2024-01-02T03:04:05+02:00'],
  ['%Y-%m-%dT%H:%M:%S%z', '2024-01-02T03:04:05Z', '2024-01-02T03:04:05+00:00'],
  ['%Y-%m-%dT%H:%M:%S.%_ms%z', '2024-01-02T03:04:05.678+0000', '2024-01-02T03:04:05.678000+00:00'],
  ['%a, %d %b %Y %H:%M:%S %z', 'Tue, 02 Jan 2024 03:04:05 +0000', '2024-01-02T03:04:05+00:00'],
  ['%m/%d/%Y %I:%M %p', '1/2/2024 03:04 PM', '2024-01-02T15:04:00+00:00'],
  ['%d/%m/%y', '02/01/24', '2024-01-02T00:00:00+00:00'],
  ['%Y-%j', '2024-060', '2024-02-29T00:00:00+00:00'],
  ['%G-W%V-%u', '2024-W01-1', '2024-01-01T00:00:00+00:00'],
  ['%s', '1704164645', '2024-01-02T03:04:05+00:00'],
  ['%s', '1704164645.5', null],
  ['%s_as_float', '1704164645.5', '2024-01-02T03:04:05.500000+00:00'],
  ['%ms', '1704164645678', '2024-01-02T03:04:05.678000+00:00'],
  ['%epoch_microseconds', '1704164645678901', '2024-01-02T03:04:05.678901+00:00'],
  ['%Y-%m-%d', 'nonsense', null],
]

for (const [format, text, expected] of READ) {
  test(`${format} reads ${text} as ${expected}`, () => {
    assert.equal(timeFormat(format).parse(text)?.iso() ?? null, expected)
  })
}

const WRITTEN: Array<[string, string]> = [
  ['%Y-%m-%dT%H:%M:%SZ', '2024-01-02T03:04:05Z'],
  ['%Y-%m-%dT%H:%M:%S.%f%z', '2024-01-02T03:04:05.678901+0000'],
  ['%Y-%m-%dT%H:%M:%S.%_msZ', '2024-01-02T03:04:05.678Z'],
  ['%s', '1704164645'],
  ['%s_as_float', '1704164645.678901'],
  ['%ms', '1704164645678'],
  ['%epoch_microseconds', '1704164645678901'],
  ['%A %-d %B %y, %I:%M %p, week %V of %G, day %j', 'Tuesday 2 January 24, 03:04 AM, week 01 of 2024, day 002'],
]

for (const [format, expected] of WRITTEN) {
  test(`${format} writes ${expected}`, () => {
    const time = parseIso('2024-01-02T03:04:05.678901+00:00')!
    assert.equal(formatTime(time, format), expected)
  })
}

test('ISO 8601 is read in the forms that manifests use', () => {
  assert.equal(parseIso('2024-01-02')?.iso(), '2024-01-02T00:00:00')
  assert.equal(parseIso('20240102T0304')?.iso(), '2024-01-02T03:04:00')
  assert.equal(parseIso('2024-01-02 03:04:05.5Z')?.iso(), '2024-01-02T03:04:05.500000+00:00')
  assert.equal(parseIso('2024-01-02T24:00')?.iso(), '2024-01-03T00:00:00')
  assert.equal(parseIso('2024')?.iso(), '2024-01-01T00:00:00')
  assert.equal(parseIso('yesterday'), null)
})

test('a duration with months moves by calendar months', () => {
  const { months, delta } = parseDuration('P1M1D')!
  assert.equal(parseIso('2024-01-31')!.plusMonths(months).plus(delta).iso(), '2024-03-01T00:00:00')
  assert.equal(parseDuration('PT1H30M')!.delta.totalSeconds, 5400)
  assert.equal(parseDuration('-P1W')!.delta.totalSeconds, -604_800)
  assert.equal(parseDuration('P'), null)
  assert.equal(parseDuration('1 day'), null)
})

test('a format that reads a directive twice is refused, as in Python', () => {
  assert.throws(() => compileStrptime('%H'.repeat(40)), /%H is used twice/)
})
