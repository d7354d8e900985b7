/** The fast reader of plain YAML against the `yaml` package: whatever it reads, the package reads alike. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseDocument } from 'yaml'
import { readPlainYaml } from '../../../src/connectors/manifest/yaml/plain.ts'
import { SCALARS } from '../../../src/connectors/manifest/yaml/scalars.ts'

/** Undefined if the package finds fault with the text. */
function readWithPackage(text: string): unknown {
  const document = parseDocument(text, { schema: 'failsafe', customTags: SCALARS, merge: true, prettyErrors: false })
  return document.errors.length + document.warnings.length > 0 ? undefined : document.toJS()
}

const DOCUMENT = `# a comment
version: 6.0.0
type: DeclarativeSource   # another
numbers: [1, -2, 0x1F, 017, 1_000, 1.5, 6.02e+23, .5, 1e3, "1"]
words: [yes, No, on, off, ~, null, true, False, nothing, 'it''s', "a \\"b\\" \\u00e9\\n"]
empty:
braces: {a: 1, "b c": [x, {d: e}], url: https://example.com/x?y=z}
over_lines: [
    a,
    {"b": "c"}
  ]
json: {
  "deep": [1, 2,
    3]
  }
streams:
- name: first
  path: /v1/{{ config['id'] }}/items:search
  page[size]: "100"
  "$ref": '#/definitions/x'
  nested:
    - - a
      - b
    -
      key: value
    -
- $parameters:
    name: second
  text: plain text
    that goes on

    after a blank line
  quoted: "over two
    lines"
  single: 'over

    three'
literal: |
  one
    two

  three
clipped: |-
  one

folded: >-
  one
  two

  three
kept: >
  a # no comment
indented: >-
  one
  two
    three

    four
  five

  six
commas: [a, b,]
more_commas: {
    "a": 1,
    "b": [2,
    ],
  }
escapes: "\\x41 \\ \\_\\e\\0 \\\\x41"
continued: "one \\
  two\\
  \\  three
  four"
after: last
`

test('plain YAML is read without the package, to the same value', () => {
  assert.notEqual(readPlainYaml(DOCUMENT), undefined)
  assert.deepEqual(readPlainYaml(DOCUMENT), readWithPackage(DOCUMENT))
})

for (const [what, text] of Object.entries({
  'an anchor': 'a: &x 1\nb: *x\n',
  'a merged mapping': 'a: {b: 1}\n<<: {c: 2}\n',
  'a tag': 'a: !!str 1\n',
  'a duplicate key': 'a: 1\na: 2\n',
  'a key that is a number': '200: a\n',
  'a key that changes the prototype': '__proto__: {a: 1}\n',
  'two documents': 'a: 1\n---\nb: 2\n',
  'a tab': 'a:\t1\n',
  'a wrong indentation': 'a:\n    b: 1\n  c: 2\n',
  'a mapping in a scalar': 'a: b: c\n',
  'an open bracket': 'a: [1, 2\n',
  'an escape that few have': 'a: "\\U00000041"\n',
  'an explicit key': '? a\n: b\n',
})) {
  test(`${what} is left to the package`, () => assert.equal(readPlainYaml(text), undefined))
}

/** A generator with a seed, so that a failure can be repeated. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const PIECES = [
  ' ',
  '  ',
  '\n',
  '\n\n',
  ':',
  ': ',
  '- ',
  '#',
  ' #',
  '"',
  "'",
  '[',
  ']',
  '{',
  '}',
  ',',
  '|',
  '>',
  '>-',
  '|-',
  '\\',
]
const MORE = [
  'a',
  'b c',
  '1',
  '0',
  '~',
  'no',
  '?',
  '&x',
  '*x',
  '!',
  '%',
  '@',
  '...',
  '\\n',
  '<<',
  '\n  ',
  '\n    ',
  'a: ',
  'k:\n',
]

test('of ten thousand damaged texts, none is read differently than the package reads it', () => {
  const random = randomFrom(20261116)
  const pieces = [...PIECES, ...MORE]
  const lines = DOCUMENT.split('\n')
  let read = 0
  for (let round = 0; round < 10_000; round++) {
    const start = random(lines.length)
    let text = `${lines.slice(start, start + 1 + random(8)).join('\n')}\n`
    for (let times = random(4); times >= 0; times--) {
      const at = random(text.length)
      text = text.slice(0, at) + pieces[random(pieces.length)]! + text.slice(at + random(3))
    }
    const value = readPlainYaml(text)
    if (value === undefined) continue
    read++
    assert.deepEqual({ value }, { value: readWithPackage(text) }, JSON.stringify(text))
  }
  assert.ok(read > 1000, `${read} were read at all`)
})

test('a long line is read in time that grows with its length', () => {
  const started = performance.now()
  for (const long of [' '.repeat(1_000_000), 'a'.repeat(1_000_000), '\\"'.repeat(500_000), ': '.repeat(500_000)]) {
    for (const text of [
      `a: ${long}b\n`,
      `a: "${long}"\n`,
      `- ${long}x`,
      `a: [${long}b]\n`,
      `a: ${"''".repeat(400_000)}\n`,
    ]) {
      readPlainYaml(text)
    }
  }
  assert.ok(performance.now() - started < 10_000)
})
