/**
 * From an answer to records. Where nothing needs a record's content, its bytes are copied as they are: no number loses a
 * digit, and nothing is built. Otherwise each record is parsed by itself, exactly, and written again.
 */
import { isRaw, parseExact } from '../../json/exact.ts'
import type { Json } from '../../json/json.ts'
import { MalformedJson } from '../../json/malformed.ts'
import { skipToToken, skipValue } from '../../json/validator.ts'
import { findSpan, parseSpan, type Span, visitItems, walkDocument } from '../../json/walk.ts'
import { ConnectorError } from '../contract.ts'
import type { HttpAnswer } from './answer.ts'
import { type CursorFilter, CursorTracker, hashRecord } from './cursor-tracker.ts'
import { decodeBody, unpack } from './decode.ts'
import { Lines } from './lines.ts'
import { isFields, lookUp, lookUpAll } from './paths.ts'
import type { ExpandPlan, RecordsPlan } from './records-plan.ts'
import type { Fields, Scope } from './scope.ts'

const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
const LOWER_N = 0x6e

/** The records of a page that stay. */
export interface PageRecords {
  lines: Lines
  /** How many the page had before any filter. */
  extracted: number
  /** Where records should be, if the answer has nothing there. */
  absent: string | null
  /** What they mean for the cursor; null without one. */
  tracker: CursorTracker | null
  /** The last record that was extracted. */
  last(): Fields | null
}

/** One record as it was found: bytes of a JSON body, or a value. */
type Found = { span: Span } | { value: Json }

/** `scope.answer` is the answer. */
export function readRecords(
  answer: HttpAnswer,
  plan: RecordsPlan,
  scope: Scope,
  filter: CursorFilter | null,
): PageRecords {
  const { bytes, decoder } = unpack(answer.bytes, answer.decoder)
  try {
    const found = inBytes(plan, scope, decoder.kind)
      ? decoder.kind === 'json'
        ? findSpans(answer, bytes, plan, scope)
        : findLines(bytes)
      : findValues(answer, plan, scope)
    const absent = found.length === 0 ? findAbsent(answer, plan, scope) : null
    return { ...keepRecords(found, { bytes, plan, scope, filter }), absent }
  } catch (error) {
    if (!(error instanceof MalformedJson)) throw error
    const type = answer.headers['content-type']?.split(';')[0]?.slice(0, 60) ?? 'no content type'
    const host = URL.parse(answer.url)?.host ?? 'The server'
    const what = decoder.kind === 'json' ? 'JSON' : decoder.kind
    const said = `${host} answered with a body that is not ${what} (${type})`
    const isPage = decoder.kind !== 'xml' && /^\s*<(?:!doctype|html)/i.test(bytes.toString('latin1', 0, 200))
    const advice = 'but a page for people; check the address, and whether the credentials are accepted there'
    throw new ConnectorError('source', isPage ? `${said}, ${advice}.` : `${said}: ${error.message}.`)
  }
}

function findAbsent(answer: HttpAnswer, plan: RecordsPlan, scope: Scope): string | null {
  const path = pathOf(plan, scope)
  if (path.length === 0 || path.includes('*') || answer.decoder.kind !== 'json') return null
  return answer.bytes.length > 0 && answer.find(path) === undefined ? path.join('.') : null
}

function pathOf({ extract }: RecordsPlan, scope: Scope): readonly string[] {
  if (!('path' in extract)) return []
  return typeof extract.path === 'function' ? extract.path(scope) : extract.path
}

/** Whether records can be found without parsing the body. */
function inBytes(plan: RecordsPlan, scope: Scope, kind: string): boolean {
  if (!('path' in plan.extract) || plan.extract.expand !== undefined) return false
  return kind === 'json' || (kind === 'jsonl' && pathOf(plan, scope).length === 0)
}

function findLines(bytes: Buffer): Found[] {
  const found: Found[] = []
  for (let start = skipToToken(bytes, 0); start < bytes.length; ) {
    const end = skipValue(bytes, start)
    if (bytes[start] !== LOWER_N) found.push({ span: { start, end } })
    start = skipToToken(bytes, end)
  }
  return found
}

/** Validates the whole body on the way. */
function findSpans(answer: HttpAnswer, bytes: Buffer, plan: RecordsPlan, scope: Scope): Found[] {
  const found: Found[] = []
  if (bytes.length === 0) return found
  const take = (start: number): number => {
    const end = skipValue(bytes, start)
    if (bytes[start] !== LOWER_N) found.push({ span: { start, end } })
    return end
  }
  const wraps = 'path' in plan.extract && plan.extract.wrap !== undefined
  walkDocument(bytes, pathOf(plan, scope), (start) => {
    const byte = bytes[start]
    if (byte !== OPEN_BRACKET) return byte === OPEN_BRACE || wraps ? take(start) : skipValue(bytes, start)
    const end = visitItems(bytes, start, take)
    if (bytes === answer.bytes) answer.known.set(start, end)
    return end
  })
  return found
}

function findValues(answer: HttpAnswer, plan: RecordsPlan, scope: Scope): Found[] {
  const { extract } = plan
  if ('compute' in extract) return extract.compute(scope).map((value) => ({ value }))
  const body = decodeBody(answer.bytes, answer.decoder)
  const values = lookUpAll(body, pathOf(plan, scope)).flatMap((value) =>
    Array.isArray(value) ? value : isFields(value) || extract.wrap !== undefined ? [value] : [],
  )
  const { expand: into } = extract
  const records = into ? values.flatMap((value) => expand(value, into)) : values
  return records.filter((value) => value !== null).map((value) => ({ value }))
}

function expand(value: Json, { path, keepOriginal, onNone }: ExpandPlan): Json[] {
  const items = lookUpAll(value, path)
    .filter((list) => Array.isArray(list))
    .flat()
  if (items.length === 0) return onNone === 'keep' ? [value] : []
  if (!keepOriginal) return items
  return items.map((item) => (isFields(item) ? { ...item, original_record: value } : item))
}

interface Keeping {
  bytes: Buffer
  plan: RecordsPlan
  scope: Scope
  filter: CursorFilter | null
}

function keepRecords(found: readonly Found[], { bytes, plan, scope, filter }: Keeping): Omit<PageRecords, 'absent'> {
  const untouched = plan.filter === null && plan.transforms.length === 0
  const wrap = 'path' in plan.extract ? plan.extract.wrap : undefined
  const lines = new Lines(bytes, plan.add === null ? null : plan.add(scope))
  const tracker = filter === null ? null : new CursorTracker(filter)
  for (const each of found) {
    if (untouched && 'span' in each && bytes[each.span.start] === OPEN_BRACE) {
      if (tracker === null || admitsSpan(tracker, bytes, each.span)) lines.addSpan(each.span)
      continue
    }
    const given = parseFound(each, bytes, wrap)
    const identity = tracker === null || untouched ? null : identityOf(each, bytes)
    for (const [index, record] of changeRecord(given, plan, scope).entries()) {
      const text = JSON.stringify(record)
      const hash = () => (identity === null ? hashRecord(text) : `${identity()}${index === 0 ? '' : `:${index}`}`)
      if (tracker === null || tracker.admits(lookUp(record, tracker.field), hash)) lines.addText(text)
    }
  }
  const final = found.at(-1)
  let last: Fields | undefined
  return {
    lines,
    extracted: found.length,
    tracker,
    last() {
      if (final === undefined) return null
      last ??= parseFound(final, bytes, wrap)
      return last
    },
  }
}

/** Of what the API sent, since a transformation may add what differs each time, such as the hour. */
function identityOf(found: Found, bytes: Buffer): () => string {
  if ('span' in found) return () => hashRecord(bytes.subarray(found.span.start, found.span.end))
  // Transformations change it in place.
  const text = JSON.stringify(found.value)
  return () => hashRecord(text)
}

function admitsSpan(tracker: CursorTracker, bytes: Buffer, { start, end }: Span): boolean {
  const at = findSpan(bytes, start, tracker.field)
  const value = at === null ? undefined : parseSpan(bytes, at)
  return tracker.admits(value, () => hashRecord(bytes.subarray(start, end)))
}

function parseFound(found: Found, bytes: Buffer, wrap: string | undefined): Fields {
  const value = 'value' in found ? found.value : parseExact(bytes.toString('utf8', found.span.start, found.span.end))
  if (isFields(value) && !isRaw(value)) return value
  if (wrap !== undefined) return { [wrap]: value }
  const kind = Array.isArray(value) ? 'an array' : `a ${typeof value}`
  throw new ConnectorError('source', `A record is ${kind}, not an object; select a path whose items are objects.`)
}

/** What becomes of a record: usually one. */
function changeRecord(given: Fields, plan: RecordsPlan, scope: Scope): readonly Fields[] {
  const passes = (record: Fields): boolean => plan.filter === null || plan.filter({ ...scope, record })
  if (!plan.transformFirst && !passes(given)) return []
  let records: readonly Fields[] = [given]
  for (const transform of plan.transforms)
    records = records.flatMap((record) => transform(record, { ...scope, record }) ?? record)
  return plan.transformFirst ? records.filter(passes) : records
}
