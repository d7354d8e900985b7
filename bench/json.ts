/**
 * Whether our JSON scanners agree with JSON.parse on a million generated texts, two thirds of them damaged, and how fast the
 * validator is on records of 200 bytes compared with JSON.parse.
 *
 *   npm run bench:json [-- CASES]
 */
import './lib/help.ts'
import fc from 'fast-check'
import { isObjectLine } from '../server/src/json/validator.ts'
import { agreeOnFields, agreeOnValidity, jsonTexts } from '../server/test/harness/json-cases.ts'
import { median, report } from './lib/figures.ts'

const cases = Number(process.argv[2] ?? 1_000_000)
const seed = Date.now() | 0
console.log(`seed ${seed}`)
const third = Math.ceil(cases / 3)
fc.assert(fc.property(jsonTexts.object, agreeOnFields), { numRuns: Math.ceil(third / 2), seed })
fc.assert(fc.property(jsonTexts.document, agreeOnValidity), { numRuns: Math.ceil(third / 2), seed })
fc.assert(fc.property(jsonTexts.damaged, agreeOnValidity), { numRuns: 2 * third, seed })
console.log(`${cases.toLocaleString('en-US')} texts: no disagreement`)

const record = {
  id: 123456,
  name: 'brisk swift 1',
  kind: 'swift',
  weight_kg: 779.31,
  protected: true,
  seen_at: '2026-11-15T12:16:33.545Z',
  tags: ['a', 'b', 'c'],
  place: { latitude: 47.3769, longitude: 8.5417, note: 'a "quoted" note' },
}
const line = Buffer.from(JSON.stringify(record))
const text = line.toString()

function perSecond(work: () => void): number {
  for (let index = 0; index < 50_000; index++) work()
  const count = 500_000
  const started = performance.now()
  for (let index = 0; index < count; index++) work()
  return (count * 1000) / (performance.now() - started)
}

const rounds = Array.from({ length: 5 }, () => ({
  validate: perSecond(() => isObjectLine(line, 0, line.length)),
  parse: perSecond(() => JSON.parse(text)),
}))
report(
  `records of ${line.length} bytes a second`,
  {
    validator: median(rounds.map(({ validate }) => validate)),
    'JSON.parse': median(rounds.map(({ parse }) => parse)),
    ratio: median(rounds.map(({ validate, parse }) => validate / parse)),
  },
  'faster than JSON.parse',
)
