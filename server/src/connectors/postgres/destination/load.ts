/**
 * The load of one attempt, and why it loads every row exactly once:
 *
 * - A checkpoint is one transaction that takes the mark first and moves it from n - 1 to n. So checkpoint n is in the table
 *   exactly when the mark says so, and an attempt that was fenced changes no row and stops.
 * - When the answer to COMMIT is lost, the mark is read under its lock on a new connection: the lock waits until the server
 *   is done with the lost one, and the mark then says whether n was committed.
 * - Rows of a source that cannot resume, and of every replace, go into an invisible stage; the transaction that
 *   publishes them also sets `published`, so a later attempt cannot publish twice.
 * - upsert copies a checkpoint into a temporary table and merges it by key inside that same transaction.
 *
 * Fault points stand before and after each step; tests crash there.
 */

import type { Json } from '../../../json/json.ts'
import { type Column, ConnectorError, type Load, type LoadContext, type Page } from '../../contract.ts'
import { quoteTable, type TableName } from '../shared/names.ts'
import { inTransaction, type Session } from '../shared/session.ts'
import { describeColumn, keptType } from '../shared/type-names.ts'
import { type Connection, openConnection } from './connection.ts'
import { type ColumnTypes, stageTable, targetTable, temporaryTable, toColumns, toTypes } from './load-tables.ts'
import { createLoader, type Loader, type LoadTable, reconcile } from './loader.ts'
import { serializeWriters } from './locks.ts'
import { advanceMark, isOwn, lockMark, type MarkOwner, publishMark, setCursor, setStage } from './marks.ts'
import { checkKey, mergeRows, mergeTable } from './merge.ts'
import { createPageQueue, type PageQueue } from './page-queue.ts'
import { publishStage } from './publish.ts'
import { dropStage, ordinalColumn, prepareStage, stageName, sweepStages } from './stage.ts'
import { readColumns, readGeneratedColumns, type TableColumn } from './table.ts'

/**
 * A checkpoint this small waits in memory, so its transaction is short. Not more, because the server is idle while it
 * waits.
 */
const HOLD_BYTES = 512 * 1024
const CHUNK_BYTES = 256 * 1024
/** A cancelled run must be gone within seconds. */
const CLEAN_UP_MS = 2000

interface LoadInput {
  context: LoadContext
  owner: MarkOwner
  target: TableName
  openSession(signal: AbortSignal): Promise<Session>
}

/**
 * Where rows go first: to a stage until all are there, straight into the table, or to a temporary table per checkpoint.
 */
type LoadStrategy = 'stage' | 'append' | 'merge'

export async function openLoad(input: LoadInput): Promise<Load> {
  const { context, owner, openSession } = input
  const { signal, log } = context
  const connection = await openConnection(() => openSession(signal), owner, signal, log)
  const attempt = new LoadAttempt(input, connection)
  try {
    await attempt.prepare()
    return attempt
  } catch (error) {
    connection.session.destroy()
    throw error
  }
}

class LoadAttempt implements Load {
  readonly #input: LoadInput
  readonly #connection: Connection
  readonly #strategy: LoadStrategy
  readonly #stage: TableName
  #queue!: PageQueue
  #checkpoint = 0
  #published = false
  /** The table's schema has been reported to the pipeline's owner. */
  #schemaReported = false
  /** Columns of the table that rows are copied into; null while it does not exist. */
  #have: ColumnTypes | null = null
  /** The transaction of the checkpoint that is being loaded. */
  #open: { loader: Loader; table: LoadTable } | null = null

  constructor(input: LoadInput, connection: Connection) {
    const { context, owner } = input
    this.#input = input
    this.#connection = connection
    this.#strategy = chooseStrategy(context)
    this.#stage = { schema: owner.schema, table: stageName(owner) }
  }

  /** Takes over what earlier attempts left, and inspects the table. */
  async prepare(): Promise<void> {
    const { context, owner } = this.#input
    await context.fault('postgres.open.before')
    const { session } = this.#connection
    await inTransaction(session, async () => {
      const mark = await this.#connection.lockOwnMark()
      this.#published = mark.published
      this.#checkpoint = mark.checkpoint
      if (mark.published) return
      if (this.#strategy === 'stage') this.#checkpoint = await prepareStage(session, owner, mark, context.resumable)
      else await dropStage(session, owner, mark)
    })
    await sweepStages(session, owner)
    await inTransaction(session, () => this.#openQueue(session))
    await context.fault('postgres.open.after')
  }

  async #openQueue(session: Session): Promise<void> {
    const { context, target } = this.#input
    const { sync, schema, encoding, columns } = context
    const existing = (await readColumns(session, target)) ?? schema?.map(keptColumn) ?? null
    const written = await readColumns(session, this.#strategy === 'stage' ? this.#stage : target)
    if (this.#strategy !== 'merge') this.#have = toTypes(written)
    this.#queue = createPageQueue({
      encoding,
      declared: columns,
      // Rows that an earlier attempt staged have already shaped the stage.
      existing: this.#strategy === 'stage' && written !== null ? joinColumns(existing, written) : existing,
      generated: await readGeneratedColumns(session, target),
      contract: sync.schema_change,
    })
    if (sync.write === 'upsert' && encoding === 'tsv') checkKey(this.#queue.shape.written(), sync.primary_key)
  }

  async write(page: Page): Promise<void> {
    if (this.#published) return
    this.#queue.add(page)
    if (this.#queue.size >= (this.#open === null ? HOLD_BYTES : CHUNK_BYTES)) await this.#flush()
  }

  async commit(next: number, cursor: Json): Promise<void> {
    if (this.#published) return
    expectCheckpoint(next, this.#checkpoint + 1)
    await this.#finishCheckpoint(await this.#flush(), cursor)
    if (this.#strategy !== 'stage') await this.#reportSchema(this.#queue.takeChanges())
  }

  async publish(last: number, cursor: Json): Promise<void> {
    const { fault, log } = this.#input.context
    await fault('postgres.publish.before')
    if (!this.#published) {
      expectCheckpoint(last, this.#checkpoint)
      if (this.#strategy === 'stage') await this.#publishStaged(cursor)
      else await this.#publishDirect(cursor)
      this.#published = true
      for (const sentence of this.#queue.report()) log.warn(sentence)
    }
    await fault('postgres.publish.after')
    await this.#connection.session.close()
  }

  async abort(): Promise<void> {
    this.#connection.session.destroy()
    // If this fails, the next attempt or the sweep does it.
    if (this.#strategy === 'stage' && !this.#input.context.resumable && !this.#published)
      await this.#cleanUp().catch(() => undefined)
  }

  async #flush(): Promise<{ loader: Loader; table: LoadTable }> {
    this.#open ??= await this.#beginCheckpoint()
    for (const item of this.#queue.take()) await this.#open.loader.write(item)
    return this.#open
  }

  async #beginCheckpoint(): Promise<{ loader: Loader; table: LoadTable }> {
    const { context, owner, target } = this.#input
    await context.fault('postgres.checkpoint.before')
    await this.#connection.begin()
    const { session } = this.#connection
    await advanceMark(session, owner, this.#checkpoint + 1)
    await context.fault('postgres.checkpoint.marked')
    if (this.#strategy !== 'stage') {
      await serializeWriters(session, target.schema, target.table)
      await this.#detectConcurrentChanges(session)
    }
    const table = this.#chooseTable(session)
    return { loader: createLoader(session, context.signal, table), table }
  }

  #chooseTable(session: Session): LoadTable {
    const { context, target } = this.#input
    const { write } = context.sync
    if (this.#strategy === 'merge') return temporaryTable(session)
    if (this.#strategy === 'append') return targetTable(session, target, this.#have, [])
    const like = write === 'replace' ? target : null
    return stageTable(session, { stage: this.#stage, like, have: this.#have, ordered: write === 'upsert' })
  }

  /** Another pipeline may have changed the table since we inspected it. */
  async #detectConcurrentChanges(session: Session): Promise<void> {
    const { target } = this.#input
    const now = toTypes(await readColumns(session, target))
    if (this.#strategy === 'append') this.#have = now
    for (const { name, type, was } of this.#queue.shape.written()) {
      const is = now?.get(name)
      if (is === type || is === was || (is !== 'jsonb' && is !== 'json')) continue
      const message = `Another session changed column ${name} of ${target.table} to ${is}; the run starts over`
      throw new ConnectorError('destination', message, { transient: true })
    }
  }

  async #finishCheckpoint(open: { loader: Loader; table: LoadTable }, cursor: Json): Promise<void> {
    const { fault } = this.#input.context
    const { loader, table } = open
    const { session } = this.#connection
    const checkpoint = this.#checkpoint + 1
    await loader.finish()
    await fault('postgres.checkpoint.copied')
    if (this.#strategy === 'merge' && table.columns !== null) await this.#merge(session, toColumns(table.columns))
    await setCursor(session, this.#input.owner, { checkpoint, cursor, visible: this.#strategy !== 'stage' })
    await fault('postgres.checkpoint.ready')
    await this.#connection.commit((mark) => mark.checkpoint === checkpoint)
    if (this.#strategy !== 'merge') this.#have = table.columns
    this.#open = null
    this.#checkpoint = checkpoint
    await fault('postgres.checkpoint.committed')
  }

  async #merge(session: Session, columns: TableColumn[]): Promise<void> {
    const { context, target } = this.#input
    const key = context.sync.primary_key
    checkKey(columns, key)
    const into = targetTable(session, target, toTypes(await readColumns(session, target)), key)
    const were = new Map(this.#queue.shape.written().map(({ name, was }) => [name, was]))
    const wanted = columns.map((column) => ({ ...column, was: were.get(column.name) }))
    await reconcile(session, context.signal, into, wanted)
    await mergeRows(session, { target, from: mergeTable, columns, key, log: context.log })
    await context.fault('postgres.checkpoint.merged')
  }

  /** After a visible commit: reports what the table looks like now. */
  async #reportSchema(changes: string[]): Promise<void> {
    const { context, target } = this.#input
    if (changes.length === 0 && (this.#schemaReported || context.schema !== null)) return
    const { session } = this.#connection
    const columns = await inTransaction(session, () => readColumns(session, target))
    if (columns === null) return
    this.#schemaReported = true
    for (const change of changes) context.log.info(`${target.schema}.${target.table}: ${change}.`)
    const kept = columns.map(({ name, type }) => describeColumn(name, type))
    context.saveSchema(kept, changes)
  }

  async #publishStaged(cursor: Json): Promise<void> {
    const { context, owner, target } = this.#input
    const { signal, log, sync, fault } = context
    await this.#connection.begin()
    const { session } = this.#connection
    const { changed_by } = await this.#connection.lockOwnMark()
    await publishMark(session, owner, { checkpoint: this.#checkpoint, cursor })
    await fault('postgres.publish.marked')
    await serializeWriters(session, target.schema, target.table)
    const columns = this.#queue.shape.written()
    const changes = await publishStage({
      session,
      signal,
      log,
      sync,
      target,
      stage: this.#stage,
      columns,
      staged_by: changed_by,
      fault,
    })
    await fault('postgres.publish.ready')
    await this.#connection.commit((mark) => mark.published)
    await this.#reportSchema(changes)
  }

  async #publishDirect(cursor: Json): Promise<void> {
    await this.#connection.begin()
    await publishMark(this.#connection.session, this.#input.owner, { checkpoint: this.#checkpoint, cursor })
    await this.#input.context.fault('postgres.publish.marked')
    await this.#connection.commit((mark) => mark.published)
  }

  /** Drops a stage that no attempt could resume. The signal has ended our own session, so this opens another. */
  async #cleanUp(): Promise<void> {
    const { owner, openSession } = this.#input
    const session = await openSession(AbortSignal.timeout(CLEAN_UP_MS))
    await inTransaction(session, async () => {
      await session.script("SET LOCAL lock_timeout = '1s'")
      const mark = await lockMark(session, owner)
      if (mark === null || !isOwn(mark, owner) || mark.published) return
      await session.script(`DROP TABLE IF EXISTS ${quoteTable(this.#stage)}`)
      await setStage(session, owner, { checkpoint: mark.checkpoint, stage: null, reset: true })
    })
    await session.close()
  }
}

function chooseStrategy({ sync, resumable }: LoadContext): LoadStrategy {
  if (sync.write === 'replace' || !resumable) return 'stage'
  return sync.write === 'upsert' ? 'merge' : 'append'
}

function expectCheckpoint(given: number, expected: number): void {
  if (given === expected) return
  throw new ConnectorError('internal', `Got checkpoint ${given}, but the mark expects ${expected}`)
}

const keptColumn = (column: Column): TableColumn => ({ name: column.name, type: keptType(column) })

/** The second list wins if both have a column: the stage started from the table and was widened. */
function joinColumns(first: readonly TableColumn[] | null, second: readonly TableColumn[]): TableColumn[] {
  const all = new Map([...(first ?? []), ...second].map((column) => [column.name, column]))
  all.delete(ordinalColumn)
  return [...all.values()]
}
