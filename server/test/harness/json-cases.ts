/** JSON texts, valid and damaged, and checks that our scanners agree with JSON.parse. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { cutArray } from '../../src/json/array-lines.ts'
import { createKeyRing, decodeString, visitFields } from '../../src/json/fields.ts'
import { MalformedJson } from '../../src/json/malformed.ts'
import { countRecords, isObjectLine, validateJson } from '../../src/json/validator.ts'

const object = fc
  .dictionary(fc.string({ unit: 'binary', maxLength: 5 }), fc.jsonValue(), { maxKeys: 5 })
  .map((value) => JSON.stringify(value))
const document = fc.oneof(
  object,
  fc.json(),
  fc.jsonValue().map((value) => JSON.stringify(value, null, 1)),
)
const DAMAGE = ['', '"', '\\', '{', '}', '[', ']', ',', ':', '0', '-', '.', 'e', '+', '\\u12', '\\ud800', '\t', '\n', '\r', '\0', 'x', 'true', 'nul', ' '] // biome-ignore format: a table

const damage = (texts: fc.Arbitrary<string>) =>
  fc
    .tuple(texts, fc.array(fc.tuple(fc.nat(), fc.constantFrom(...DAMAGE)), { minLength: 1, maxLength: 3 }))
    .map(([text, blows]) =>
      blows.reduce((whole, [place, put]) => {
        const at = place % (whole.length + 1)
        return whole.slice(0, at) + put + whole.slice(at + 1)
      }, text),
    )

const objects = fc
  .tuple(fc.array(object, { maxLength: 5 }), fc.constantFrom('', ' ', '\n  ', '\r\n\t'), fc.nat(2))
  .map(([elements, blank, indent]) => {
    const texts = indent > 0 ? elements.map((text) => JSON.stringify(JSON.parse(text), null, indent)) : elements
    return `${blank}[${blank}${texts.join(`${blank},${blank}`)}${blank}]${blank}`
  })

export const jsonTexts = { object, document, damaged: damage(document), objects, damagedObjects: damage(objects) }

function parse(text: string): { value: unknown } | null {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return null
  }
}

const accepts = (look: () => unknown): boolean => {
  try {
    look()
    return true
  } catch (error) {
    assert.ok(error instanceof MalformedJson, String(error))
    return false
  }
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** What is JSON and what is not, as a document, as a line and as a page of records. */
export function agreeOnValidity(text: string): void {
  const bytes = Buffer.from(text.toWellFormed())
  const parsed = parse(bytes.toString())
  assert.equal(
    accepts(() => validateJson(bytes, 255)),
    parsed !== null,
    text,
  )
  if (/[\n\r]/.test(text)) return
  const objectLine = parsed !== null && isObject(parsed.value) && text[0] === '{'
  assert.equal(isObjectLine(bytes, 0, bytes.length), objectLine, text)
  const page = Buffer.concat([bytes, Buffer.from('\n')])
  const bare = objectLine && text.endsWith('}')
  assert.equal(
    accepts(() => countRecords(page)),
    bare,
    text,
  )
}

/** The lines that an array of objects is cut into, whatever the chunks it arrives in. */
export async function agreeOnArrays(text: string, chunkBytes: number): Promise<void> {
  const bytes = Buffer.from(text.toWellFormed())
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes)
  }
  const parsed = parse(bytes.toString())
  const expected = Array.isArray(parsed?.value) && parsed.value.every(isObject) ? parsed.value : null
  const lines = await Array.fromAsync(cutArray(chunks())).catch((error) => {
    assert.ok(error instanceof MalformedJson, String(error))
    return null
  })
  const cut = lines && Buffer.concat(lines).toString().split('\n').slice(0, -1)
  const valid = cut?.every((line) => isObjectLine(Buffer.from(line), 0, Buffer.byteLength(line))) === true
  assert.deepEqual(valid ? cut!.map((line) => JSON.parse(line)) : null, expected, text)
}

/** The fields of an object, in order, with the values that JSON.parse returns. */
export function agreeOnFields(text: string): void {
  const line = Buffer.from(text).toString('latin1')
  const ring = createKeyRing()
  const seen: Record<string, unknown> = Object.create(null)
  visitFields(line, 0, line.length, ring, (key, start, end) => {
    seen[decodeString(ring.raw[key]!)] = JSON.parse(Buffer.from(line.slice(start, end), 'latin1').toString())
  })
  assert.deepEqual(seen, Object.assign(Object.create(null), JSON.parse(text)))
}
