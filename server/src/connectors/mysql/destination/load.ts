/**
 * The load of one attempt, and why it loads every row exactly once:
 *
 * - A checkpoint is one transaction that takes the mark first and moves it from n - 1 to n. So checkpoint n is in the table
 *   exactly when the mark says so, and an attempt that was fenced changes no row and stops.
 * - DDL ends a transaction in MySQL. So the table is changed before the transaction begins: a column that is there
 *   before its rows does no harm. Rows whose columns may change on the way are first collected in a temporary table
 *   (`batch`); typed rows whose columns are known go straight into the table (`direct`).
 * - When the answer to COMMIT is lost, the mark is read under its lock on a new connection.
 * - Rows of a source that cannot resume, and of every replace, go into an invisible stage. If the source resumes, a
 *   checkpoint of the stage is such a transaction too, and a later attempt goes on with it under a name of its own; if
 *   not, rows are loaded by one statement in a session of their own (`whole`), which goes on over all checkpoints, and
 *   a later attempt starts over. stage.ts says how a replace is published.
 *
 * Fault points stand before and after each step; tests crash there.
 */
import type { Json } from '../../../json/json.ts'
import { ConnectorError, type Load, type LoadContext, type Page } from '../../contract.ts'
import { quoteName, quoteTable, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { createCarefulLoader } from './careful-loader.ts'
import { byName, describeColumn, keptColumn, type TableColumn } from './columns.ts'
import { type LoadConnection, openLoadConnection } from './connection.ts'
import { warnOfCollation } from './key-collation.ts'
import { createLoader, type Loader, mayLoadLocal } from './loader.ts'
import { holdPresence, takeTurn } from './locks.ts'
import {
  advanceMark,
  type MarkOwner,
  type MarkRow,
  presenceOf,
  publishMark,
  rowPresenceOf,
  setCursor,
  setStage,
} from './marks.ts'
import { checkKey, mergeRows, prepareMerge } from './merge.ts'
import { createPageQueue, type PageQueue, type QueueItem } from './page-queue.ts'
import { matchTarget, publishStage } from './publish.ts'
import { createBatch, createStage, findChanges, type Receiver } from './receiver.ts'
import { moveRows } from './refused-rows.ts'
import { createMarker, dropTables, ownTable, sweepStages } from './stage.ts'
import { alterTable, readTable } from './table.ts'

const HOLD_BYTES = 512 * 1024
const CLEAN_UP_MS = 2000
const MAX_LOAD_MS = 600_000

interface LoadInput {
  context: LoadContext
  owner: MarkOwner
  target: TableName
  /** MariaDB ends a statement that takes longer. 0: never. */
  statementTimeoutSeconds: number
  openSession(signal: AbortSignal): Promise<Session>
}

type Strategy = 'whole' | 'direct' | 'batch'

export async function openLoad(input: LoadInput): Promise<Load> {
  const { context, owner, openSession } = input
  const { signal, log } = context
  const open = async (): Promise<Session> => {
    const session = await openSession(signal)
    await holdPresence(session, presenceOf(owner.pipeline_id, owner))
    return session
  }
  const connection = await openLoadConnection(open, owner, signal, log)
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
  readonly #connection: LoadConnection
  /** Rows are not visible before the end. */
  readonly #staged: boolean
  /** Where checkpoints go: the target, or the stage. */
  readonly #destination: TableName
  #strategy: Strategy
  #queue!: PageQueue
  #local = true
  #checkpoint = 0
  #published = false
  #schemaReported = false
  #receiver: Receiver | null = null
  /** The session that loads rows, where it is not the one of the mark. */
  #rowSession: Session | null = null
  #loadingSince = 0
  #loader: Loader | null = null
  /** Direct loads: the transaction of the checkpoint is open. */
  #open = false

  constructor(input: LoadInput, connection: LoadConnection) {
    const { sync, resumable } = input.context
    this.#input = input
    this.#connection = connection
    this.#staged = sync.write === 'replace' || !resumable
    this.#strategy = resumable ? 'batch' : 'whole'
    this.#destination = this.#staged ? ownTable(input.owner, 's') : input.target
  }

  /** Inspects the table and names the stage. What earlier attempts left was settled when the mark was taken. */
  async prepare(): Promise<void> {
    const { context, owner } = this.#input
    await context.fault('mysql.open.before')
    const { session } = this.#connection
    await session.run('START TRANSACTION')
    const mark = await this.#connection.lockOwnMark()
    await session.run('COMMIT')
    this.#published = mark.published
    this.#checkpoint = mark.checkpoint
    if (!mark.published) {
      if (this.#staged) await this.#prepareStage(session, mark)
      await sweepStages(session, owner)
      if (context.sync.write === 'replace') await createMarker(session, owner)
      await this.#openQueue(session)
      if (this.#strategy === 'whole') {
        this.#rowSession = await this.#input.openSession(context.signal)
        await holdPresence(this.#rowSession, rowPresenceOf(owner.pipeline_id, owner))
      }
    }
    await context.fault('mysql.open.after')
  }

  /** Rows staged so far are kept under the new name, which no older attempt knows, or dropped. */
  async #prepareStage(session: Session, mark: MarkRow): Promise<void> {
    const { context, owner } = this.#input
    const stage = ownTable(owner, 's')
    const old = mark.stage === null ? null : { database: owner.database, table: mark.stage }
    const goesOn = old !== null && context.resumable && mark.checkpoint > 0
    if (old !== null && old.table !== stage.table) {
      if (goesOn) await session.run(`RENAME TABLE ${quoteTable(old)} TO ${quoteTable(stage)}`)
      else await dropTables(session, [old])
    }
    await setStage(session, owner, { checkpoint: mark.checkpoint, stage: stage.table, reset: !goesOn })
    if (!goesOn) this.#checkpoint = 0
  }

  async #openQueue(session: Session): Promise<void> {
    const { context, target } = this.#input
    const { sync, schema, encoding, columns } = context
    this.#local = await mayLoadLocal(session)
    if (!this.#local)
      context.log.warn(
        'The server does not allow LOAD DATA LOCAL (local_infile is off), so rows are sent by INSERT, which is slower.',
      )
    const found = await readTable(session, target)
    if (found !== null && sync.write === 'upsert') await warnOfCollation(session, target, sync.primary_key, context.log)
    const shaped = this.#staged ? await readTable(session, this.#destination) : null
    const existing = found?.columns ?? schema?.map(keptColumn) ?? null
    this.#queue = createPageQueue({
      encoding,
      declared: columns,
      // Rows that an earlier attempt staged have already shaped the stage.
      existing: shaped === null ? existing : [...byName([...(existing ?? []), ...shaped.columns]).values()],
      generated: found?.generated ?? new Set(),
      contract: sync.schema_change,
      quarantine: context.refused !== undefined,
    })
    if (sync.write === 'upsert' && encoding === 'tsv') checkKey(this.#queue.shape.written(), sync.primary_key)
    // Rows that may be refused are collected first, so that those which are can be left out.
    const direct = sync.write !== 'upsert' && encoding === 'tsv' && !context.refused
    if (this.#strategy === 'batch' && direct) {
      this.#strategy = 'direct'
      const written = this.#queue.shape.written()
      await this.#matchDestination(session, written)
      this.#receiver = { name: this.#destination, columns: byName(written) }
    }
  }

  /** Makes the table that checkpoints go to able to hold the columns. */
  async #matchDestination(session: Session, columns: readonly TableColumn[]): Promise<void> {
    const { context, target } = this.#input
    if (this.#staged && (await readTable(session, this.#destination)) === null)
      await createStage(session, {
        stage: this.#destination,
        target,
        columns,
        write: context.sync.write,
        quarantine: context.refused !== undefined,
      })
    await matchTarget(session, context, this.#destination, columns)
  }

  async write(page: Page): Promise<void> {
    if (this.#published) return
    this.#queue.add(page)
    if (this.#loader !== null || this.#queue.size >= (this.#input.context.holdBytes ?? HOLD_BYTES)) await this.#flush()
  }

  async #flush(): Promise<void> {
    const items = this.#queue.take()
    for (const { record, reason } of this.#queue.takeRefused()) await this.#input.context.refused!.add(record, reason)
    if (this.#strategy === 'direct') await this.#beginCheckpoint()
    for (const item of items) await this.#load(item)
  }

  get #rows(): Session {
    return this.#rowSession ?? this.#connection.session
  }

  async #load(item: QueueItem): Promise<void> {
    await this.#receive(item)
    if (this.#loader === null) {
      const { refused } = this.#input.context
      const into = this.#receiver!.name
      this.#loader = refused
        ? createCarefulLoader(this.#rows, into, this.#local, refused)
        : createLoader(this.#rows, into, this.#local)
      this.#loadingSince = performance.now()
    }
    await this.#loader.write(item)
  }

  /** Makes the table that takes the rows able to hold them. */
  async #receive({ columns }: QueueItem): Promise<void> {
    const { context } = this.#input
    const session = this.#rows
    this.#receiver ??= await this.#createReceiver(session, columns)
    const changes = findChanges(this.#receiver, columns)
    if (changes === null) return
    await this.#endLoad()
    if (this.#strategy === 'direct') return this.#startOver(session)
    await alterTable(session, context.signal, this.#receiver.name, changes)
    for (const column of columns) this.#receiver.columns.set(column.name, column)
  }

  /** A typed value did not fit, and the rows before it are in an open transaction, which changing the table would commit. */
  async #startOver(session: Session): Promise<void> {
    const { target } = this.#input
    await session.run('ROLLBACK')
    this.#open = false
    await this.#matchDestination(session, this.#queue.shape.written())
    throw new ConnectorError(
      'destination',
      `A value did not fit its column in ${target.table}, which has been widened; the checkpoint has to be loaded again`,
      { transient: true },
    )
  }

  #createReceiver(session: Session, columns: readonly TableColumn[]): Promise<Receiver> {
    const { context, owner, target } = this.#input
    const quarantine = context.refused !== undefined
    const stage = { stage: ownTable(owner, 's'), target, columns, write: context.sync.write, quarantine }
    return this.#strategy === 'whole' ? createStage(session, stage) : createBatch(session, stage)
  }

  async #beginCheckpoint(): Promise<void> {
    if (this.#open) return
    const { context, owner } = this.#input
    await context.fault('mysql.checkpoint.before')
    // The rows of a batch are in a temporary table, which a lost session takes with it.
    await this.#connection.begin(this.#strategy !== 'batch' || this.#receiver === null)
    this.#open = true
    await advanceMark(this.#connection.session, owner, this.#checkpoint + 1)
    await context.fault('mysql.checkpoint.marked')
  }

  async commit(next: number, cursor: Json): Promise<void> {
    if (this.#published) return
    if (next !== this.#checkpoint + 1)
      throw new ConnectorError('internal', `Got checkpoint ${next}, but the mark expects ${this.#checkpoint + 1}`)
    await this.#flush()
    if (this.#strategy !== 'whole' || performance.now() - this.#loadingSince > this.#maxLoadMs) await this.#endLoad()
    await this.#finishCheckpoint(cursor)
    if (!this.#staged) await this.#reportSchema(this.#queue.shape.takeChanges())
  }

  /** A statement that goes on for longer is ended with the next checkpoint, well before the server would. */
  get #maxLoadMs(): number {
    const { statementTimeoutSeconds: seconds } = this.#input
    return seconds === 0 ? MAX_LOAD_MS : Math.min(MAX_LOAD_MS, (seconds * 1000) / 2)
  }

  async #endLoad(): Promise<void> {
    await this.#loader?.finish()
    this.#loader = null
  }

  async #finishCheckpoint(cursor: Json): Promise<void> {
    const { context, owner } = this.#input
    const { fault, sync } = context
    const checkpoint = this.#checkpoint + 1
    await fault('mysql.checkpoint.loaded')
    const batch = this.#strategy === 'batch' ? this.#receiver : null
    const columns = batch === null ? [] : [...batch.columns.values()]
    const done = batch === null ? null : await this.#prepareBatch(this.#connection.session, columns)
    await this.#beginCheckpoint()
    const { session } = this.#connection
    if (batch !== null) {
      const from = quoteTable(batch.name)
      if (sync.write === 'upsert')
        await mergeRows(session, {
          target: this.#destination,
          from,
          columns,
          key: sync.primary_key,
          refused: context.refused,
        })
      else {
        const list = columns.map(({ name }) => quoteName(name)).join(', ')
        const statement = (condition: string | null): string =>
          `INSERT INTO ${quoteTable(this.#destination)} (${list}) SELECT ${list} FROM ${from}${condition === null ? '' : ` WHERE ${condition}`}`
        await moveRows(session, { from, columns, statement }, context.refused)
      }
      await fault('mysql.checkpoint.merged')
    }
    await setCursor(session, owner, { checkpoint, cursor, visible: !this.#staged })
    await context.refused?.keep()
    await fault('mysql.checkpoint.ready')
    await this.#connection.commit((mark) => mark.checkpoint === checkpoint)
    this.#open = false
    this.#checkpoint = checkpoint
    await fault('mysql.checkpoint.committed')
    if (batch !== null) {
      await done?.()
      await this.#connection.session.run(`DROP TEMPORARY TABLE IF EXISTS ${quoteTable(batch.name)}`)
      this.#receiver = null
    }
  }

  /** Everything that would end a transaction. Returns what ends our turn. */
  async #prepareBatch(session: Session, columns: readonly TableColumn[]): Promise<() => Promise<void>> {
    const { sync } = this.#input.context
    const done = await takeTurn(session, this.#destination)
    if (sync.write === 'upsert') checkKey(columns, sync.primary_key)
    await this.#matchDestination(session, columns)
    if (sync.write === 'upsert') await prepareMerge(session, this.#destination, sync.primary_key)
    return done
  }

  async publish(last: number, cursor: Json): Promise<void> {
    const { context, owner, target } = this.#input
    await context.fault('mysql.publish.before')
    if (!this.#published) {
      if (last !== this.#checkpoint)
        throw new ConnectorError('internal', `Got checkpoint ${last}, but the mark expects ${this.#checkpoint}`)
      if (this.#staged) {
        await this.#endLoad()
        const columns = this.#queue.shape.written()
        const changes = await publishStage({
          connection: this.#connection,
          context,
          owner,
          target,
          checkpoint: last,
          cursor,
          columns,
        })
        await this.#reportSchema(changes)
      } else {
        await this.#connection.begin(true)
        await publishMark(this.#connection.session, owner, { checkpoint: last, cursor })
        await context.fault('mysql.publish.marked')
        await this.#connection.commit((mark) => mark.published)
      }
      this.#published = true
      for (const sentence of this.#queue.report()) context.log.warn(sentence)
    }
    await context.fault('mysql.publish.after')
    await this.#rowSession?.close()
    await this.#connection.session.close()
  }

  async abort(): Promise<void> {
    this.#rowSession?.destroy()
    this.#connection.session.destroy()
    // If this fails, the next attempt does it.
    if (this.#strategy === 'whole' && !this.#published) await this.#cleanUp().catch(() => undefined)
  }

  /** The signal has ended our own session, so this opens another. The tables are this attempt's alone. */
  async #cleanUp(): Promise<void> {
    const { owner, openSession } = this.#input
    const session = await openSession(AbortSignal.timeout(CLEAN_UP_MS))
    await dropTables(session, [ownTable(owner, 'm'), ownTable(owner, 's')])
    await session.close()
  }

  /** After a visible commit: reports what the table looks like now. */
  async #reportSchema(changes: string[]): Promise<void> {
    const { context, target } = this.#input
    if (changes.length === 0 && (this.#schemaReported || context.schema !== null)) return
    const found = await readTable(this.#connection.session, target)
    if (found === null) return
    this.#schemaReported = true
    for (const change of changes) context.log.info(`${target.table}: ${change}.`)
    context.saveSchema(found.columns.map(describeColumn), changes)
  }
}
