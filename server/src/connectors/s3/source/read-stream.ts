/**
 * The objects of a stream, one after the other, with a cursor on every page.
 *
 *   full refresh   in the order of their keys, each once, as it is when its turn comes. The cursor is the last key.
 *   incremental    those that are new, in the order of their times. The cursor is what was read (seen-objects.ts).
 *
 * Both go through the listing page by page: only the objects that are new, and at most BATCH of them, are held in memory.
 */
import type { S3Object } from '../../../s3/listing.ts'
import { ConnectorError, type Page, type ReadContext } from '../../contract.ts'
import { Bucket } from '../bucket.ts'
import { shorten } from '../failures.ts'
import { isSame, type Position, readCursor, writeCursor } from './cursor.ts'
import { listStream, prefixOf } from './objects.ts'
import { ObjectChanged } from './read-bytes.ts'
import { type Place, readObject } from './read-object.ts'
import { SeenObjects } from './seen-objects.ts'
import type { SourceSettings } from './settings.ts'

/** How many new objects one pass over the listing takes, the oldest first. */
const BATCH = 20_000
const TRIES = 3

export function readStream(context: ReadContext<SourceSettings>): AsyncGenerator<Page> {
  const bucket = new Bucket(context, 'source', 'run')
  const position = readCursor(context.resume ?? context.state)
  return context.sync.mode === 'incremental' ? readNew(context, bucket, position) : readAll(context, bucket, position)
}

async function* readAll(context: ReadContext<SourceSettings>, bucket: Bucket, start: Position): AsyncGenerator<Page> {
  const { config, stream, log } = context
  let { after, at } = start
  let objects = 0
  for await (const object of listStream(bucket, config, stream, after ?? undefined)) {
    // One that appeared meanwhile before the place where the read was interrupted.
    if (at && Buffer.compare(Buffer.from(object.key), Buffer.from(at.key)) < 0) continue
    if (at && !isSame(at, object)) throw changedMeanwhile(at.key)
    const from: Place = at ?? { records: 0 }
    at = null
    for await (const { page, place, version } of readCurrent(context, bucket, object, from)) {
      yield { ...page, ...cursorAt({ after, seen: null, at: null }, version, place, { after: object.key }) }
    }
    after = object.key
    objects++
  }
  if (at) throw changedMeanwhile(at.key)
  if (objects === 0 && start.after === null)
    log.warn(`No object under '${shorten(prefixOf(config, stream))}' matches '${config.glob}'.`)
  else log.info(`Read ${objects} object${objects === 1 ? '' : 's'}.`)
}

/**
 * The cursor after a page: within the object, or after it. A place within an object is worth nothing without an ETag, which
 * tells whether it is still the same object.
 */
function cursorAt(
  before: Position,
  { key, etag }: S3Object,
  place: Place | null,
  after: Partial<Position>,
): Pick<Page, 'cursor'> {
  if (place === null) return { cursor: writeCursor({ ...before, ...after }) }
  return etag === null ? {} : { cursor: writeCursor({ ...before, at: { key, etag, ...place } }) }
}

/** Its records are already loaded in part, and the rest is gone. */
function changedMeanwhile(key: string): ConnectorError {
  return new ConnectorError(
    'source',
    `The object '${shorten(key)}' was changed or deleted while the run was interrupted in the middle of it; the next run reads everything again.`,
  )
}

interface CurrentPage {
  page: Page
  /** Null with the last page of the object. */
  place: Place | null
  version: S3Object
}

/** One that was overwritten since it was listed is read as it is now; one that was deleted is left out. */
async function* readCurrent(
  { config, survey, log }: ReadContext<SourceSettings>,
  bucket: Bucket,
  listed: S3Object,
  from: Place,
): AsyncGenerator<CurrentPage> {
  let version = listed
  for (let tries = 1; ; tries++) {
    let given = false
    try {
      for await (const each of withLast(readObject({ bucket, config, survey }, version, from))) {
        given = true
        yield { ...each, version }
      }
      return
    } catch (error) {
      if (!(error instanceof ObjectChanged) || given || from.records > 0 || tries === TRIES) throw error
      const found = await findObject(bucket, listed.key)
      if (found === null) return log.info(`The object '${shorten(listed.key)}' was deleted before it was read.`)
      version = found
    }
  }
}

async function findObject(bucket: Bucket, key: string): Promise<S3Object | null> {
  for await (const object of bucket.list({ prefix: key, pageSize: 1 })) return object.key === key ? object : null
  return null
}

/** Marks the last page by a place of null. */
async function* withLast(
  pages: AsyncIterable<{ page: Page; place: Place }>,
): AsyncGenerator<{ page: Page; place: Place | null }> {
  let held: { page: Page; place: Place } | null = null
  for await (const each of pages) {
    if (held) yield held
    held = each
  }
  if (held) yield { page: held.page, place: null }
}

async function* readNew(
  context: ReadContext<SourceSettings>,
  bucket: Bucket,
  { seen: kept, at }: Position,
): AsyncGenerator<Page> {
  const { config, log } = context
  const seen = new SeenObjects(kept, config.late_hours)
  if (context.resume === null) seen.prune()
  let objects = 0
  let left = at
  for (let more = true; more; ) {
    const batch = await findNew(context, bucket, seen)
    more = batch.more
    if (left && !batch.objects.some((object) => isSame(left, object)))
      log.warn(
        `The object '${shorten(left.key)}' was changed or deleted after a part of it was read; if it is still there, it is read from its beginning.`,
      )
    for (const object of firstOf(batch.objects, left)) {
      const from: Place = isSame(left, object) ? left! : { records: 0 }
      left = null
      const done = yield* readNewObject(context, bucket, object, { from, seen })
      if (done) objects++
    }
  }
  log.info(objects === 0 ? 'No object is new.' : `Read ${objects} new object${objects === 1 ? '' : 's'}.`)
  if (seen.isCrowded)
    log.warn(
      `There are more objects in the last ${config.late_hours} hours than a pipeline remembers; one that appears in the listing much later than its time may be missed.`,
    )
}

/** Returns whether it was read: one that changed since it was listed is left to a later run, with its new time. */
async function* readNewObject(
  { config, survey, log }: ReadContext<SourceSettings>,
  bucket: Bucket,
  object: S3Object,
  { from, seen }: { from: Place; seen: SeenObjects },
): AsyncGenerator<Page, boolean> {
  let given = false
  try {
    for await (const { page, place } of withLast(readObject({ bucket, config, survey }, object, from))) {
      given = true
      if (place === null) seen.add(object)
      yield { ...page, ...cursorAt({ after: null, seen: seen.state, at: null }, object, place, {}) }
    }
    if (!given) seen.add(object)
    return true
  } catch (error) {
    if (!(error instanceof ObjectChanged) || given) throw error
    log.info(`The object '${shorten(object.key)}' was changed or deleted before it was read; a later run reads it.`)
    return false
  }
}

async function findNew(
  { config, stream }: ReadContext<SourceSettings>,
  bucket: Bucket,
  seen: SeenObjects,
): Promise<{ objects: S3Object[]; more: boolean }> {
  const objects: S3Object[] = []
  let more = false
  const keepOldest = (): void => {
    objects.sort(byTime)
    if (objects.length <= BATCH) return
    objects.length = BATCH
    more = true
  }
  for await (const object of listStream(bucket, config, stream)) {
    if (!seen.isNew(object)) continue
    objects.push(object)
    if (objects.length >= 2 * BATCH) keepOldest()
  }
  keepOldest()
  return { objects, more }
}

function byTime(one: S3Object, other: S3Object): number {
  return one.modified.getTime() - other.modified.getTime() || (one.key < other.key ? -1 : 1)
}

/** The object that an earlier attempt was reading comes first, so that no cursor has to remember it beside another. */
function firstOf(objects: readonly S3Object[], at: Position['at']): readonly S3Object[] {
  const first = objects.find((object) => isSame(at, object))
  return first ? [first, ...objects.filter((object) => object !== first)] : objects
}
