/** A template of a stranger ends in bounded time and memory, with a sentence that says why. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startMeter, step } from '../../../src/connectors/manifest/template/limits.ts'
import { literal, template } from '../../../src/connectors/manifest/template/template.ts'
import { TemplateError, type Value } from '../../../src/connectors/manifest/template/values.ts'

const items = Array.from({ length: 2000 }, (_, at) => at)

function render(source: string): string | null {
  return template(source).render((name) => (name === 'items' ? items : ({} as Value)))
}

const HOSTILE: Array<[string, string, RegExp]> = [
  ['nested loops', '{% for a in items %}{% for b in items %}{% endfor %}{% endfor %}', /more than \d+ steps/],
  ['repeated text', "{{ 'x' * 1000000000 }}", /more than \d+ characters/],
  ['doubling text', `{% set a = 'xxxxxxxxxx' %}${'{% set a = a + a %}'.repeat(40)}{{ a }}`, /more than \d+ characters/],
  ['a repeated list', '{{ [1] * 1000000000 }}', /more than \d+ items/],
  ['padding', "{{ 'x'.ljust(1000000000) }}", /more than \d+ characters/],
  ['a wide format', "{{ '%999999999d' % 1 }}", /more than \d+ characters/],
  ['a growing replacement', `{{ ('a' * 100000).replace('a', 'b' * 100000) }}`, /too long/],
  ['a huge power', '{{ 10 ** 1000 }}', /too large/],
  ['an explosive regular expression', `{{ ('a' * 60 ~ 'b') | regex_search('^((a+)+)$') }}`, /longer than \d+ ms/],
  ['a quadratic regular expression', `{{ ('x' * 200000) | regex_search('(x*y)') }}`, /longer than \d+ ms/],
  ['a choice tried 2^24 times', `{{ ('a' * 32) | regex_search('${'(.|a)'.repeat(28)}[^a-z]') }}`, /longer than \d+ ms/],
  ['empty alternatives', `{{ 'a' | regex_search('${'(|)'.repeat(24)}b') }}`, /too many empty/],
  ['a list that holds itself', '{% set a = [] %}{% set _ = a.append(a) %}{{ a }}', /too deeply/],
]

for (const [name, source, expected] of HOSTILE) {
  test(`${name} is refused in bounded time`, () => {
    const started = performance.now()
    assert.throws(
      () => render(source),
      (error) => error instanceof TemplateError && expected.test(error.message),
    )
    assert.ok(performance.now() - started < 5000)
  })
}

const REFUSED: Array<[string, RegExp]> = [
  ['{{ 1 | nothing }}', /the filter "nothing" is not supported/],
  ['{{ 1 is nothing }}', /the test "nothing" is not supported/],
  ['{% include "x" %}', /the statement "include" is not supported/],
  ['{{ (1 }}', /unexpected/],
  ["{{ 'a }}", /a string is not closed/],
  ['{{ config', /is not closed/],
  [`{{ ${'('.repeat(5000)}1${')'.repeat(5000)} }}`, /too deeply/],
  [`{{ ${'-'.repeat(5000)}1 }}`, /too deeply/],
  [`{{ ${'not '.repeat(5000)}1 }}`, /too deeply/],
  ['{% if 1 %}'.repeat(100), /too deeply/],
  [`${'x'.repeat(100_000)}{{ 1 }}`, /longer than/],
]

for (const [source, expected] of REFUSED) {
  test(`the template ${JSON.stringify(source.slice(0, 40))} is refused when it is compiled`, () => {
    assert.throws(
      () => template(source),
      (error) => error instanceof TemplateError && expected.test(error.message),
    )
  })
}

test('objects of the host are out of reach', () => {
  for (const source of [
    '{{ config.constructor }}',
    "{{ config['__proto__'] }}",
    '{{ config.__class__ }}',
    "{{ ''.constructor }}",
    '{{ [].__proto__ }}',
    "{{ items['constructor'] }}",
  ]) {
    assert.equal(render(source) || null, null, source)
  }
  render("{% set a = {'__proto__': {'polluted': 1}} %}{% set _ = config.update(a) %}")
  assert.equal(({} as Record<string, unknown>).polluted, undefined)
})

const LINEAR: Array<[string, () => unknown]> = [
  ['a literal after blanks', () => literal(`${' '.repeat(200_000)}x`)],
  ['a literal after blank lines', () => literal(`${' \n'.repeat(100_000)}x`)],
  ['digits that are no float', () => render(`{{ ('1' * 200000 ~ 'x') | float }}`)],
  ['digits that are no int', () => render(`{{ ('1' * 200000 ~ 'x') | int }}`)],
  ['zeros that are no format', () => render(`{{ ('%' ~ '0' * 200000 ~ '!') % 1 }}`)],
]

for (const [name, work] of LINEAR) {
  test(`${name} takes linear time`, () => {
    const started = performance.now()
    work()
    assert.ok(performance.now() - started < 2000)
  })
}

test('a format and a namespace read only what their operand holds', () => {
  const wrong = ["{{ '%(constructor)s' % {} }}", '{{ namespace(none) }}']
  for (const source of wrong) assert.equal(render(source), source)
})

test('steps that pass the moment of a look at the clock do not skip it', (t) => {
  let now = 0
  t.mock.method(performance, 'now', () => (now += 1500))
  startMeter()
  assert.throws(() => {
    for (let count = 0; count < 1000; count++) step(7 * 11)
  }, /longer than \d+ ms/)
})
