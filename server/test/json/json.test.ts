import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { MalformedJson, TooDeep } from '../../src/json/malformed.ts'
import { countRecords, isObjectLine, validateJson } from '../../src/json/validator.ts'
import { agreeOnArrays, agreeOnFields, agreeOnValidity, jsonTexts } from '../harness/json-cases.ts'

test('the validator accepts what JSON.parse accepts, and nothing else', () => {
  fc.assert(fc.property(jsonTexts.document, agreeOnValidity), { numRuns: 1000 })
  fc.assert(fc.property(jsonTexts.damaged, agreeOnValidity), { numRuns: 5000 })
})

test('the fields of a record are those that JSON.parse finds', () => {
  fc.assert(fc.property(jsonTexts.object, agreeOnFields), { numRuns: 2000 })
})

test('an array is cut into the objects that JSON.parse finds, wherever its chunks begin, and nothing else is', async () => {
  const chunkBytes = fc.integer({ min: 1, max: 40 })
  await fc.assert(fc.asyncProperty(jsonTexts.objects, chunkBytes, agreeOnArrays), { numRuns: 1000 })
  await fc.assert(fc.asyncProperty(jsonTexts.damagedObjects, chunkBytes, agreeOnArrays), { numRuns: 3000 })
  await fc.assert(fc.asyncProperty(jsonTexts.damaged, chunkBytes, agreeOnArrays), { numRuns: 1000 })
})

test('two values with a blank between them stay apart, wherever a chunk begins', async () => {
  for (const text of ['[{"a": null\n- }]', '[{"a": 1 2}]', '[{"a": "b" c}]', '[{"a": [1 \t\n 2]}]'])
    for (let chunkBytes = 1; chunkBytes <= text.length; chunkBytes++) await agreeOnArrays(text, chunkBytes)
})

test('edge cases of numbers, escapes, words and brackets are judged like JSON.parse judges them', () => {
  const texts = [
    '0', '-0', '01', '1.', '.1', '1e5', '1e', '-', '1E+5', '"\\u12g4"', '"\\x"', '"\\u1234"', 'true', 'tru', 'nulll', '[1,]',
    '[,1]', '{"a":1,}', '{"a"}', '{a:1}', '[]', '{}', '[[],{}]', '{"a":{"b":[1,2,{"c":null}]}}', '"', '"a', '[1 2]', '{"a":1 "b":2}',
    ' 1', '1 ', '[ 1 , 2 ]', '{ "a" : 1 }', '+1', 'Infinity', '1e400', '[1]]', '""', '"\\""', '"\\', '[', '{', '{"', '{"a":', '-1.5e-7',
    '{"a":01}', '{"a":1.}', '{"a":.5}', '{"a":-}', '{"a":1e}', '{"a":1e+5}', '{"a":-0.0E-0}', '{"a":"\\x"}', '{"a":"\\u00g0"}', '{"a":[1,]}',
    '{"a":tru}', '{ "a" : [ ] , "b" : { } }', '{"a":nullx}', '\t\r\n{}\n', '{"a":\n1}', '', ' ',
  ] // biome-ignore format: a table
  for (const text of texts) agreeOnValidity(text)
})

test('sixty-four levels are accepted and sixty-five are not', () => {
  const nested = (levels: number) => Buffer.from(`${'['.repeat(levels)}${']'.repeat(levels)}`)
  validateJson(nested(64))
  assert.throws(() => validateJson(nested(65)), TooDeep)
  assert.throws(() => validateJson(nested(100_000), 100_000), TooDeep)
  assert.equal(isObjectLine(Buffer.from(`{"a":${nested(300)}}`), 0, 606), false)
})

test('a page of records holds one object per line', () => {
  assert.equal(countRecords(Buffer.from('{}\n{"a":"}\\n{"}\n')), 2)
  for (const page of ['{}', '{}\n\n', '[]\n', '{} {}\n', '{"a":\n1}\n', '\n'])
    assert.throws(() => countRecords(Buffer.from(page)), MalformedJson, JSON.stringify(page))
})
