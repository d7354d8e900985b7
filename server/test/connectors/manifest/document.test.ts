/** Manifests of strangers: YAML, references and parameters end in bounded time, with a sentence that says what is wrong. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Dict } from '../../../src/connectors/manifest/component.ts'
import { readManifest } from '../../../src/connectors/manifest/document.ts'
import { checkManifest } from '../../../src/connectors/manifest/manifest.ts'
import { propagateParameters } from '../../../src/connectors/manifest/parameters.ts'
import { ManifestError } from '../../../src/connectors/manifest/problems.ts'
import { resolveReferences } from '../../../src/connectors/manifest/references.ts'
import { schemaFault } from '../../../src/connectors/manifest/schema/validate.ts'

test('scalars are read as PyYAML reads them', () => {
  const source = 'a: yes\nb: off\nc: y\nd: 010\ne: 0x1f\nf: 1_000\ng: 2024-01-02\nh: 1.5\ni: ~\nj: "5"\nk: 1e3\nl: .5'
  assert.deepEqual(readManifest(source), {
    a: true,
    b: false,
    c: 'y',
    d: 8,
    e: 31,
    f: 1000,
    g: '2024-01-02',
    h: 1.5,
    i: null,
    j: '5',
    k: '1e3',
    l: 0.5,
  })
})

test('merge keys are merged', () => {
  assert.deepEqual(readManifest('a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}').b, { x: 1, y: 3 })
})

const layers = Array.from({ length: 12 }, (_, at) => `l${at + 1}: &l${at + 1} [${`*l${at}, `.repeat(10)}]`)
const references = Array.from(
  { length: 30 },
  (_, at) => `  d${at + 1}: ["#/definitions/d${at}", "#/definitions/d${at}"]`,
)

const HOSTILE: Array<[string, string, RegExp]> = [
  ['a duplicate key', 'a: 1\nb:\n  c: 1\n  c: 2', /line 4, column 3/],
  ['aliases that multiply', `l0: &l0 [x]\n${layers.join('\n')}`, /alias|more than/i],
  ['an anchor that holds itself', 'a: &a [*a]', /alias|YAML|deep/i],
  ['a tag', 'a: !!python/object:os.system x', /YAML is not valid/],
  ['deep nesting', `a: ${'['.repeat(20_000)}`, /deep|valid/],
  ['deep blocks', Array.from({ length: 150 }, (_, at) => `${' '.repeat(at)}a:`).join('\n'), /levels deep/],
  ['a large document', `a: "${'x'.repeat(2_200_000)}"`, /larger than/],
  ['many values', `a: [${'1,'.repeat(500_000)}]`, /more than \d+ values/],
  ['a list', '- a', /not a YAML mapping/],
  ['no YAML', '{', /YAML is not valid/],
  [
    'a reference to itself',
    'streams: [{$ref: "#/definitions/a"}]\ndefinitions: {a: {b: {$ref: "#/definitions/a"}}}',
    /refers to itself/,
  ],
  ['references in a circle', 'streams: ["#/a"]\na: ["#/b"]\nb: ["#/a"]', /refers to itself/],
  ['a reference to nothing', 'streams: ["#/definitions/none"]', /leads nowhere/],
  [
    'references that multiply',
    `definitions:\n  d0: {type: x}\n${references.join('\n')}\nstreams: "#/definitions/d30"`,
    /add up to too much|is not a component|not supported/,
  ],
  ['no streams', 'version: 1.0.0', /neither streams nor dynamic_streams/],
]

for (const [name, source, expected] of HOSTILE) {
  test(`${name} is refused in bounded time`, () => {
    const started = performance.now()
    const { runs, reasons } = checkManifest(source)
    assert.equal(runs, 'no')
    assert.match(reasons.join('; '), expected)
    assert.ok(performance.now() - started < 15_000)
  })
}

test('fields beside a reference win, and strings can be references', () => {
  const resolved = resolveReferences({
    definitions: { base: { a: 1, b: 2 }, size: 50, 'with/slash': 'x' },
    streams: { $ref: '#/definitions/base', b: 3, c: '#/definitions/size', d: '#/definitions/with/slash' },
  })
  assert.deepEqual(resolved.streams, { a: 1, b: 3, c: 50, d: 'x' })
})

test('parameters reach inner components, and types that are left out are filled in', () => {
  const made = propagateParameters({
    type: 'DeclarativeSource',
    streams: [{ $parameters: { name: 'users', path: '/users' }, retriever: { requester: { url_base: 'https://x' } } }],
  })
  const [stream] = made.streams as Array<Record<string, Record<string, Record<string, unknown>>>>
  assert.equal(stream!.type, 'DeclarativeStream')
  assert.equal(stream!.name, 'users')
  assert.equal(stream!.retriever!.type, 'SimpleRetriever')
  assert.equal(stream!.retriever!.requester!.type, 'HttpRequester')
  assert.equal(stream!.retriever!.requester!.path, '/users')
})

test('a ManifestError names line and column', () => {
  assert.throws(
    () => readManifest('a: 1\na: 2'),
    (error) => error instanceof ManifestError && error.line === 2 && error.column === 1,
  )
})

test('a setting that does not have its pattern is answered with words or an example', () => {
  const fault = (property: Dict) =>
    schemaFault({ type: 'object', properties: { from: property } }, { from: 'yesterday' })
  const pattern = '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$'
  assert.equal(fault({ pattern }), 'from must look like "2024-01-31T00:00:00Z"')
  assert.equal(
    fault({ pattern, pattern_descriptor: 'YYYY-MM-DDTHH:mm:ssZ' }),
    'from must look like YYYY-MM-DDTHH:mm:ssZ',
  )
  assert.equal(fault({ pattern: '^sk_', examples: ['sk_1'] }), 'from must look like "sk_1"')
  assert.equal(fault({ pattern: '^sk_' }), 'from must match pattern "^sk_"')
})
