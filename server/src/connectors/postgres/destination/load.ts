/**
 * One attempt's load, exactly once (the argument):
 *
 * - A checkpoint is one transaction that takes the mark first and moves it from n - 1 to n. So checkpoint n is in the table
 *   exactly when the mark says so, and an attempt that was fenced changes no row and stops.
 * - When the answer to COMMIT is lost, the mark is read under its lock on a new connection: the lock waits until the server
 *   is done with the lost one, and the mark then says whether n is in.
 * - Rows of a source that cannot resume, and of every replace, go into a stage that nobody sees; the transaction that
 *   publishes them also sets `published`, so publishing twice is impossible and a later attempt knows.
 * - upsert copies a checkpoint into a temporary table and merges it by key inside that same transaction.
 *
 * Fault points stand before and after each step; tests crash there.
 */

import type { Json } from '../../../json/json.ts'
import { type Column, ConnectorError, type Load, type LoadContext } from '../../contract.ts'
import { quoteTable, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { describeColumn, keptType } from '../shared/type-names.ts'
import { openConnection } from './connection.ts'
import { type ColumnTypes, stageTable, targetTable, temporaryTable, toColumns, toTypes } from './load-tables.ts'
import { createLoader, type Loader, type LoadTable, reconcile } from './loader.ts'
import { takeTurnAt } from './locks.ts'
import { advanceMark, type LoadAttempt, lockMark, publishMark, setCursor, setStage } from './marks.ts'
import { checkKey, mergeRows, mergeTable } from './merge.ts'
import { createPageQueue, type PageQueue } from './page-queue.ts'
import { publishStage } from './publish.ts'
import { dropStage, ordinalColumn, prepareStage, stageName, sweepStages } from './stage.ts'
import { readColumns, type TableColumn } from './table.ts'

/**
 * A checkpoint this small waits in memory, and its transaction is over in a moment. Not more, for the server has nothing
 * to do while it waits.
 */
const HOLD_BYTES = 512 * 1024
const CHUNK_BYTES = 256 * 1024
/** A cancelled run has seconds to be gone. */
const CLEAN_UP_MS = 2000

export interface LoadInput {
  context: LoadContext
  attempt: LoadAttempt
  target: TableName
  openSession(signal: AbortSignal): Promise<Session>
}

type LoadStrategy = 'stage' | 'append' | 'merge'

export async function openLoad({ context, attempt, target, openSession }: LoadInput): Promise<Load> {
  const { sync, signal, log, fault } = context
  const strategy: LoadStrategy =
    sync.write === 'replace' || !context.resumable ? 'stage' : sync.write === 'upsert' ? 'merge' : 'append'
  const stage: TableName = { schema: attempt.schema, table: stageName(attempt) }
  const connection = await openConnection(() => openSession(signal), attempt, signal, log)
  let checkpoint = 0
  let published = false
  let told = false
  let queue: PageQueue
  /** Columns of the table that rows are copied into; null while it does not exist. */
  let have: ColumnTypes | null = null
  /** The transaction of the checkpoint that is being loaded. */
  let open: { loader: Loader; table: LoadTable } | null = null

  try {
    await prepare()
  } catch (error) {
    connection.session.destroy()
    throw error
  }

  async function prepare(): Promise<void> {
    await fault('postgres.open.before')
    const { session } = connection
    await session.script('BEGIN')
    const mark = await connection.lockOwnMark()
    published = mark.published
    checkpoint = mark.checkpoint
    if (!published) {
      if (strategy === 'stage') checkpoint = await prepareStage(session, attempt, mark, context.resumable)
      else await dropStage(session, attempt, mark)
    }
    await session.script('COMMIT')
    await sweepStages(session, attempt)
    const existing = (await readColumns(session, target)) ?? context.schema?.map(keptColumn) ?? null
    const written = await readColumns(session, strategy === 'stage' ? stage : target)
    if (strategy !== 'merge') have = toTypes(written)
    queue = createPageQueue({
      encoding: context.encoding,
      declared: context.columns,
      // Rows that an earlier attempt staged have shaped the stage already.
      existing: strategy === 'stage' && written !== null ? joinColumns(existing, written) : existing,
      contract: sync.schema_change,
    })
    if (sync.write === 'upsert' && context.encoding === 'tsv') checkKey(queue.shape.written(), sync.primary_key)
    await fault('postgres.open.after')
  }

  function chooseTable(session: Session): LoadTable {
    if (strategy === 'merge') return temporaryTable(session)
    if (strategy === 'append') return targetTable(session, target, have, [])
    const like = sync.write === 'replace' ? target : null
    return stageTable(session, { stage, like, have, ordered: sync.write === 'upsert' })
  }

  async function beginCheckpoint(): Promise<{ loader: Loader; table: LoadTable }> {
    await fault('postgres.checkpoint.before')
    await connection.begin()
    const { session } = connection
    await advanceMark(session, attempt, checkpoint + 1)
    await fault('postgres.checkpoint.marked')
    if (strategy !== 'stage') {
      await takeTurnAt(session, target.schema, target.table)
      await noticeOthers(session)
    }
    const table = chooseTable(session)
    return { loader: createLoader(session, signal, table), table }
  }

  /** Another pipeline may have changed the table since we looked. */
  async function noticeOthers(session: Session): Promise<void> {
    const now = toTypes(await readColumns(session, target))
    if (strategy === 'append') have = now
    for (const { name, type } of queue.shape.written()) {
      const is = now?.get(name)
      if (is === type || (is !== 'jsonb' && is !== 'json')) continue
      const message = `Another session changed column ${name} of ${target.table} to ${is}; the run begins again`
      throw new ConnectorError('destination', message, { transient: true })
    }
  }

  async function flush(): Promise<void> {
    open ??= await beginCheckpoint()
    for (const item of queue.take()) await open.loader.write(item)
  }

  async function finishCheckpoint(cursor: Json): Promise<void> {
    const { loader, table } = open!
    const { session } = connection
    await loader.finish()
    await fault('postgres.checkpoint.copied')
    if (strategy === 'merge' && table.columns !== null) await merge(session, toColumns(table.columns))
    await setCursor(session, attempt, checkpoint + 1, cursor, strategy !== 'stage')
    await fault('postgres.checkpoint.ready')
    await connection.commit((mark) => mark.checkpoint === checkpoint + 1)
    if (strategy !== 'merge') have = table.columns
    open = null
    checkpoint += 1
    await fault('postgres.checkpoint.committed')
  }

  async function merge(session: Session, columns: TableColumn[]): Promise<void> {
    checkKey(columns, sync.primary_key)
    const into = targetTable(session, target, toTypes(await readColumns(session, target)), sync.primary_key)
    await reconcile(session, signal, into, columns)
    await mergeRows(session, { target, from: mergeTable, columns, key: sync.primary_key })
    await fault('postgres.checkpoint.merged')
  }

  /** After a commit that others can see: what the table looks like now. */
  async function tellSchema(changes: string[]): Promise<void> {
    if (changes.length === 0 && (told || context.schema !== null)) return
    const columns = await readColumns(connection.session, target)
    if (columns === null) return
    told = true
    for (const change of changes) log.info(`${target.schema}.${target.table}: ${change}.`)
    context.saveSchema(
      columns.map(({ name, type }) => describeColumn(name, type)),
      changes,
    )
  }

  async function publishStaged(cursor: Json): Promise<void> {
    await connection.begin()
    const { session } = connection
    const { changed_by } = await connection.lockOwnMark()
    await publishMark(session, attempt, checkpoint, cursor)
    await fault('postgres.publish.marked')
    await takeTurnAt(session, target.schema, target.table)
    const columns = queue.shape.written()
    const input = { session, signal, log, sync, target, stage, columns, staged_by: changed_by, fault }
    const changes = await publishStage(input)
    await fault('postgres.publish.ready')
    await connection.commit((mark) => mark.published)
    await tellSchema(changes)
  }

  async function publishDirect(cursor: Json): Promise<void> {
    await connection.begin()
    await publishMark(connection.session, attempt, checkpoint, cursor)
    await fault('postgres.publish.marked')
    await connection.commit((mark) => mark.published)
  }

  /** Leaves no stage that nobody could go on with. The signal has ended our own session, so this is another one. */
  async function cleanUp(): Promise<void> {
    const session = await openSession(AbortSignal.timeout(CLEAN_UP_MS))
    await session.script("BEGIN; SET LOCAL lock_timeout = '1s'")
    const mark = await lockMark(session, attempt)
    if (mark?.seq === attempt.seq && mark.attempt === attempt.attempt && !mark.published) {
      await session.script(`DROP TABLE IF EXISTS ${quoteTable(stage)}`)
      await setStage(session, attempt, mark.checkpoint, null, true)
    }
    await session.script('COMMIT')
    await session.close()
  }

  return {
    async write(page) {
      if (published) return
      queue.add(page)
      if (queue.size >= (open === null ? HOLD_BYTES : CHUNK_BYTES)) await flush()
    },

    async commit(next, cursor) {
      if (published) return
      expectCheckpoint(next, checkpoint + 1)
      await flush()
      await finishCheckpoint(cursor)
      if (strategy !== 'stage') await tellSchema(queue.takeChanges())
    },

    async publish(last, cursor) {
      await fault('postgres.publish.before')
      if (!published) {
        expectCheckpoint(last, checkpoint)
        if (strategy === 'stage') await publishStaged(cursor)
        else await publishDirect(cursor)
        published = true
        for (const sentence of queue.report()) log.warn(sentence)
      }
      await fault('postgres.publish.after')
      await connection.session.close()
    },

    async abort() {
      connection.session.destroy()
      // Where this fails, the next attempt and the sweep do it.
      if (strategy === 'stage' && !context.resumable && !published) await cleanUp().catch(() => undefined)
    },
  }
}

function expectCheckpoint(given: number, expected: number): void {
  if (given === expected) return
  throw new ConnectorError('internal', `Checkpoint ${given} was given where ${expected} follows from the mark`)
}

const keptColumn = (column: Column): TableColumn => ({ name: column.name, type: keptType(column) })

/** The second list decides where both have a column: the stage was widened on from the table. */
function joinColumns(first: readonly TableColumn[] | null, second: readonly TableColumn[]): TableColumn[] {
  const all = new Map([...(first ?? []), ...second].map((column) => [column.name, column]))
  all.delete(ordinalColumn)
  return [...all.values()]
}
