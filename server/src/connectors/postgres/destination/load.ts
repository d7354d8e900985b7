/**
 * One attempt's load, exactly once (the argument):
 *
 * - A checkpoint is one transaction that takes the mark first and moves it from n - 1 to n. So checkpoint n is in the table
 *   exactly when the mark says so, and an attempt that was fenced changes no row and stops.
 * - When the answer to COMMIT is lost, the mark is read under its lock on a new connection: the lock waits until the server
 *   is done with the lost one, and the mark then says whether n was committed.
 * - Rows of a source that cannot resume, and of every replace, go into an invisible stage; the transaction that
 *   publishes them also sets `published`, so a later attempt cannot publish twice.
 * - upsert copies a checkpoint into a table of our own and merges it by key inside that same transaction.
 *
 * No transaction waits for the source. A checkpoint's transaction stays open while rows arrive only if the engine can
 * checkpoint at any time, because every page has a cursor or none is needed; after a few seconds the load asks for that. If
 * the source decides when the next checkpoint comes, rows that do not fit in memory are spilled in short transactions
 * (spill-table.ts) and moved by the checkpoint's transaction. The table is altered before that, in separate short
 * transactions (table-changes.ts), so its readers never wait for the source.
 *
 * Fault points stand before and after each step; tests crash there.
 */

import type { Json } from '../../../json/json.ts'
import { ConnectorError, type Load, type LoadContext, type Page } from '../../contract.ts'
import { quoteTable, type TableName } from '../shared/names.ts'
import { inTransaction, type Session } from '../shared/session.ts'
import { describeColumn } from '../shared/type-names.ts'
import { openLoader } from './careful-loader.ts'
import { CheckpointClock } from './checkpoint-clock.ts'
import { type Connection, openConnection } from './connection.ts'
import { type ColumnTypes, stageTable, targetTable, temporaryTable, toColumns } from './load-tables.ts'
import { type Loader, needsChange, reconcile } from './loader.ts'
import { serializeWriters } from './locks.ts'
import { advanceMark, type MarkOwner, publishMark, setCursor } from './marks.ts'
import { checkKey, mergeRows, mergeTable } from './merge.ts'
import { openQueue } from './open-queue.ts'
import { dropOwnTables, stageName, sweepTables } from './own-tables.ts'
import type { PageQueue } from './page-queue.ts'
import { prepareTarget, publishStage } from './publish.ts'
import { checkAtOnce, moveRows } from './refused-rows.ts'
import { addRows, createSpill, requireWhole, type Spill } from './spill-table.ts'
import { dropStage, prepareStage } from './stage.ts'
import { insertSql, type LoadTable, readColumns, restOf, type TableColumn } from './table.ts'
import { changeColumns, changeTable, noticeOthers } from './table-changes.ts'

/**
 * A checkpoint this small waits in memory, so its transaction is short. Not more if the source is fast, because the server
 * is idle while it waits.
 */
const HOLD_BYTES = 512 * 1024
const CHUNK_BYTES = 256 * 1024
/** Held in memory while the source is slow, or if the source decides when a checkpoint comes. */
const MAX_HELD_BYTES = 4 * 1024 * 1024
/** A cancelled run must be gone within seconds. */
const CLEAN_UP_MS = 2000

interface LoadInput {
  context: LoadContext
  owner: MarkOwner
  target: TableName
  openSession(signal: AbortSignal): Promise<Session>
}

interface OpenCheckpoint {
  loader: Loader
  table: LoadTable
}

/** Where rows go first: to a stage until all are there, straight into the table, or to a table of our own per checkpoint. */
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
  readonly #clock: CheckpointClock
  #queue!: PageQueue
  #checkpoint = 0
  #published = false
  /** The table's schema has been reported to the pipeline's owner. */
  #schemaReported = false
  /** Columns of the table that the rows of a checkpoint end in: target or stage. Null while it does not exist. */
  #have: ColumnTypes | null = null
  /** The target has the index that a merge needs. */
  #unique = false
  /** The transaction of the checkpoint that is being loaded. */
  #open: OpenCheckpoint | null = null
  /** What was spilled of it instead. */
  #spill: Spill | null = null
  /** Some page had no cursor, so only the source knows when a checkpoint can come. */
  #sparse = false

  constructor(input: LoadInput, connection: Connection) {
    const { context, owner } = input
    this.#input = input
    this.#connection = connection
    this.#strategy = chooseStrategy(context)
    this.#stage = { schema: owner.schema, table: stageName(owner) }
    this.#clock = new CheckpointClock(() => context.requestCheckpoint())
  }

  get native(): boolean {
    return this.#queue.native
  }

  /** Takes over what earlier attempts left, and inspects the table. */
  async prepare(): Promise<void> {
    const { context, owner, target } = this.#input
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
    await sweepTables(session, owner)
    const written = this.#strategy === 'stage' ? this.#stage : target
    const { queue, have } = await inTransaction(session, () => openQueue(session, context, target, written))
    this.#queue = queue
    this.#have = have
    await context.fault('postgres.open.after')
  }

  async write(page: Page): Promise<void> {
    if (this.#published) return
    if (this.#input.context.resumable && page.cursor === undefined) this.#sparse = true
    this.#clock.pageCame()
    this.#queue.add(page)
    if (this.#open !== null) {
      if (this.#queue.size >= CHUNK_BYTES && !this.#waitsForChange(this.#open)) await this.#flush()
    } else if (this.#strategy === 'merge' || this.#sparse) {
      if (this.#queue.size >= this.#mostHeld) await this.#spillRows()
    } else if (this.#isEnough()) await this.#flush()
  }

  get #mostHeld(): number {
    return this.#input.context.holdBytes ?? MAX_HELD_BYTES
  }

  /** Whether to begin the transaction now. For a slow source that waits until there is more to write. */
  #isEnough(): boolean {
    const { size } = this.#queue
    return size >= HOLD_BYTES && (size >= MAX_HELD_BYTES || this.#clock.isFast(size))
  }

  /** The table must be altered in a transaction that has already written to it. That is deferred to its end. */
  #waitsForChange({ table }: OpenCheckpoint): boolean {
    if (this.#strategy !== 'append' || !needsChange(table.columns, this.#queue.shape.written())) return false
    this.#clock.ask()
    return this.#queue.size < MAX_HELD_BYTES
  }

  async commit(next: number, cursor: Json): Promise<void> {
    if (this.#published) return
    expectCheckpoint(next, this.#checkpoint + 1)
    if (this.#spill === null) await this.#finishCheckpoint(await this.#flush(), cursor)
    else await this.#moveSpilled(cursor)
    this.#clock.stop()
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
    this.#clock.stop()
    this.#connection.session.destroy()
    const staged = this.#strategy === 'stage' && !this.#input.context.resumable && !this.#published
    // If this fails, the next attempt or the sweep does it.
    if (staged || this.#spill !== null) await this.#cleanUp(staged).catch(() => undefined)
  }

  /** Drops tables that no attempt could resume. The signal has ended our own session, so this opens another. */
  async #cleanUp(staged: boolean): Promise<void> {
    const { owner, openSession } = this.#input
    const session = await openSession(AbortSignal.timeout(CLEAN_UP_MS))
    const tables = [...(this.#spill === null ? [] : [this.#spill.name]), ...(staged ? [this.#stage] : [])]
    await dropOwnTables(session, owner, tables, { forget: staged })
    await session.close()
  }

  async #flush(): Promise<OpenCheckpoint> {
    if (this.#open === null) {
      const session = await this.#beginCheckpoint()
      const table = this.#chooseTable(session)
      this.#open = { loader: openLoader(session, this.#input.context, table), table }
      this.#clock.start()
    }
    for (const item of this.#queue.take()) await this.#open.loader.write(item)
    return this.#open
  }

  /** For a checkpoint that may still take long. */
  async #spillRows(): Promise<void> {
    const { context, owner } = this.#input
    const items = this.#queue.take()
    if (items.length === 0) return
    this.#spill ??= createSpill(owner)
    await addRows(this.#spill, items, this.#connection, context)
  }

  /** Commits the spilled checkpoint in one short transaction. */
  async #moveSpilled(cursor: Json): Promise<void> {
    await this.#spillRows()
    const spill = this.#spill!
    const session = await this.#beginCheckpoint()
    await requireWhole(session, spill)
    const from = quoteTable(spill.name)
    const columns = this.#withOrigin(toColumns(spill.columns!))
    if (this.#strategy === 'merge') await this.#merge(session, columns, from)
    else {
      const table = this.#chooseTable(session)
      await reconcile(session, this.#input.context.signal, table, columns)
      const names = columns.map(({ name }) => name)
      const statement = (condition: string | null) => insertSql(table.name, names, restOf(from, condition))
      await moveRows(session, { from, columns, statement }, this.#input.context.refused)
      this.#have = table.columns
    }
    await session.script(`DROP TABLE ${from}`)
    await this.#input.context.fault('postgres.checkpoint.copied')
    await this.#commitCheckpoint(session, cursor)
    this.#spill = null
  }

  /** Alters the target for the rows that have arrived, before the transaction that writes to it. */
  async #changeTarget(): Promise<void> {
    const { context, target } = this.#input
    const { primary_key } = context.sync
    const merges = this.#strategy === 'merge'
    const wanted = this.#queue.shape.written()
    if (this.#strategy === 'stage' || this.#have === null) return
    if (!needsChange(this.#have, wanted) && (!merges || this.#unique)) return
    if (merges) checkKey(wanted, primary_key)
    const key = merges ? primary_key : []
    this.#have = await changeColumns({ connection: this.#connection, target, context }, wanted, key)
    this.#unique = merges && this.#have !== null
  }

  /** The transaction of the next checkpoint, with the mark moved on. */
  async #beginCheckpoint(): Promise<Session> {
    const { context, owner, target } = this.#input
    await this.#changeTarget()
    await context.fault('postgres.checkpoint.before')
    await this.#connection.begin()
    const { session } = this.#connection
    await advanceMark(session, owner, this.#checkpoint + 1)
    await checkAtOnce(session, context.refused)
    await context.fault('postgres.checkpoint.marked')
    if (this.#strategy !== 'stage') {
      await serializeWriters(session, target.schema, target.table)
      this.#have = await noticeOthers(session, target, this.#queue.shape.written())
    }
    return session
  }

  #chooseTable(session: Session): LoadTable {
    const { context, target } = this.#input
    const { write } = context.sync
    if (this.#strategy === 'merge') return temporaryTable(session)
    if (this.#strategy === 'append') return targetTable(session, target, this.#have, [])
    const like = write === 'replace' ? target : null
    return stageTable(session, { stage: this.#stage, like, have: this.#have, ordered: write === 'upsert' })
  }

  async #finishCheckpoint({ loader, table }: OpenCheckpoint, cursor: Json): Promise<void> {
    const { session } = this.#connection
    await loader.finish()
    await this.#input.context.fault('postgres.checkpoint.copied')
    if (this.#strategy !== 'merge') this.#have = table.columns
    else if (table.columns !== null) await this.#merge(session, this.#withOrigin(toColumns(table.columns)), mergeTable)
    await this.#commitCheckpoint(session, cursor)
    this.#open = null
  }

  async #commitCheckpoint(session: Session, cursor: Json): Promise<void> {
    const { fault, refused } = this.#input.context
    const checkpoint = this.#checkpoint + 1
    await setCursor(session, this.#input.owner, { checkpoint, cursor, visible: this.#strategy !== 'stage' })
    await refused?.keep()
    await fault('postgres.checkpoint.ready')
    await this.#connection.commit((mark) => mark.checkpoint === checkpoint)
    this.#checkpoint = checkpoint
    await fault('postgres.checkpoint.committed')
  }

  /** With what the columns were when the table was looked at. */
  #withOrigin(columns: TableColumn[]): TableColumn[] {
    const were = new Map(this.#queue.shape.written().map(({ name, was }) => [name, was]))
    return columns.map((column) => ({ ...column, was: were.get(column.name) }))
  }

  async #merge(session: Session, columns: TableColumn[], from: string): Promise<void> {
    const { context, target } = this.#input
    const key = context.sync.primary_key
    checkKey(columns, key)
    const into = targetTable(session, target, this.#have, key)
    await reconcile(session, context.signal, into, columns)
    await mergeRows(session, { target, from, columns, key, log: context.log, refused: context.refused })
    this.#have = into.columns
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
    const { signal, log, sync, fault, refused } = context
    const columns = this.#queue.shape.written()
    const input = { signal, log, sync, target, stage: this.#stage, columns, fault, refused }
    const change = { connection: this.#connection, target, context }
    const prepared = await changeTable(change, (session, mark) => prepareTarget({ ...input, session }, mark))
    await this.#connection.begin()
    const { session } = this.#connection
    const mark = await this.#connection.lockOwnMark()
    await publishMark(session, owner, { checkpoint: this.#checkpoint, cursor })
    await fault('postgres.publish.marked')
    await serializeWriters(session, target.schema, target.table)
    await checkAtOnce(session, refused)
    const changes = await publishStage({ ...input, session }, mark)
    await refused?.keep()
    await fault('postgres.publish.ready')
    await this.#connection.commit(({ published }) => published)
    await this.#reportSchema([...prepared, ...changes])
  }

  async #publishDirect(cursor: Json): Promise<void> {
    await this.#connection.begin()
    await publishMark(this.#connection.session, this.#input.owner, { checkpoint: this.#checkpoint, cursor })
    await this.#input.context.fault('postgres.publish.marked')
    await this.#connection.commit((mark) => mark.published)
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
