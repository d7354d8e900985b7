import assert from 'node:assert/strict'
import { test } from 'node:test'
import { validateManifest } from '../../../src/connectors/manifest/validate.ts'

const stream = (name: string, requester: string) => `
  - type: DeclarativeStream
    name: ${name}
    retriever:
      type: SimpleRetriever
      requester: ${requester}
      record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: []}}`
const GOOD = '{type: HttpRequester, url_base: "https://example.com", path: /a}'

/** The text at the place of each finding, up to the end of its line. */
function placesOf(yaml: string): string[] {
  const lines = yaml.split('\n')
  return validateManifest(yaml).findings.map(({ line, column }) => lines[line - 1]!.slice(column))
}

test('a finding about a stream is at what it is about, in that stream', () => {
  const yaml = `version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [first]}
streams:${stream('first', GOOD)}${stream('second', '\n        type: CustomRequester\n        class_name: source_x.components.Signed')}`
  assert.equal(validateManifest(yaml).runs, 'part')
  const [place] = placesOf(yaml)
  assert.match(place!, /^(CustomRequester|source_x\.components\.Signed)/)
})

test('a finding about a stream that is referred to is where the stream is written', () => {
  const yaml = `version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [first]}
definitions:
  second:
    type: DeclarativeStream
    name: second
    retriever: {type: SimpleRetriever, requester: {type: HttpRequester, path: /x}, record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: []}}}
streams:
  - $ref: "#/definitions/second"${stream('first', GOOD)}`
  const { findings } = validateManifest(yaml)
  assert.equal(findings.length, 1)
  assert.ok(findings[0]!.line >= 6 && findings[0]!.line <= 8, JSON.stringify(findings))
})

test('a reference to nothing is where it is written, and broken YAML where it breaks', () => {
  const yaml = `version: 6.0.0\ntype: DeclarativeSource\nstreams:\n  - "#/definitions/nowhere"\n`
  assert.match(placesOf(yaml)[0]!, /^#\/definitions\/nowhere/)
  const broken = validateManifest('version: 6.0.0\nstreams: [\n')
  assert.ok(broken.findings[0]!.line >= 2)
})
