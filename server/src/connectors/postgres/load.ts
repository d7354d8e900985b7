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
import { type Column, ConnectorError, type Json, type Load, type LoadContext, type Page } from '../contract.ts'
import { isLostConnection } from './errors.ts'
import { createLoader, type Loader, type LoadTable, reconcile } from './loader.ts'
import { takeTurnAt } from './locks.ts'
import { advanceMark, fencedError, lockMark, publishMark, setCursor, setStage, type Turn } from './marks.ts'
import { checkKey, createMergeTableSql, mergeRows, mergeTable } from './merge.ts'
import { quoteTable, type TableName } from './names.ts'
import { createPageQueue, type PageQueue } from './page-queue.ts'
import { publishStage } from './publish.ts'
import type { Session } from './session.ts'
import { createStage, dropStage, prepareStage, stageName, sweepStages } from './stage.ts'
import { createTableSql, readColumns } from './table.ts'

/** A checkpoint this small waits in memory, and its transaction is over in a moment. */
const HOLD_BYTES = 4 * 1024 * 1024
const CHUNK_BYTES = 256 * 1024

export interface LoadInput {
  context: LoadContext
  turn: Turn
  target: TableName
  openSession(): Promise<Session>
}

type Way = 'stage' | 'append' | 'merge'

export async function openLoad({ context, turn, target, openSession }: LoadInput): Promise<Load> {
  const { sync, signal, log, fault } = context
  const way: Way =
    sync.write === 'replace' || !context.resumable ? 'stage' : sync.write === 'upsert' ? 'merge' : 'append'
  const stage: TableName = { schema: turn.schema, table: stageName(turn) }
  let session = await openSession()
  let checkpoint = 0
  let published = false
  let existing: Column[] | null = null
  /** The open checkpoint's transaction. */
  let open: { loader: Loader; table: LoadTable } | null = null
  let queue: PageQueue
  /** Columns of the table that rows are copied into; null while it does not exist. */
  let have: Map<string, string> | null = null

  try {
    await prepare()
  } catch (error) {
    session.destroy()
    throw error
  }

  async function prepare(): Promise<void> {
    await fault('postgres.open.before')
    await session.script('BEGIN')
    const mark = await lockMark(session, turn)
    if (mark === null || mark.seq !== turn.seq || mark.attempt !== turn.attempt) throw fencedError()
    published = mark.published
    checkpoint = mark.checkpoint
    if (!published) {
      if (way === 'stage') checkpoint = await prepareStage(session, turn, mark, context.resumable)
      else await dropStage(session, turn, mark)
    }
    await session.script('COMMIT')
    await sweepStages(session, turn)
    existing = await readColumns(session, target)
    if (existing === null) existing = context.schema
    const kept = await readColumns(session, way === 'stage' ? stage : target)
    have = way === 'merge' ? null : toMap(kept)
    // Rows that an earlier attempt staged have shaped the stage already.
    const base = way === 'stage' && kept !== null ? mergeColumns(existing, kept) : existing
    queue = createPageQueue({
      encoding: context.encoding,
      declared: context.columns,
      existing: base,
      contract: sync.schema_change,
    })
    if (sync.write === 'upsert' && context.encoding === 'copy') checkKey(queue.shape.written(), sync.primary_key)
    await fault('postgres.open.after')
  }

  function describeTable(): LoadTable {
    if (way === 'merge') {
      const name = { schema: 'pg_temp', table: '_sluice_merge' }
      const create = async (columns: readonly Column[]) => {
        await session.script(createMergeTableSql(columns))
        return toMap(columns)!
      }
      return { name, sql: mergeTable, columns: null, create }
    }
    if (way === 'append') {
      const create = async (columns: readonly Column[]) => {
        await session.script(createTableSql(target, columns))
        return toMap(columns)!
      }
      return { name: target, sql: quoteTable(target), columns: have, create }
    }
    const create = async (columns: readonly Column[]) => {
      const like = sync.write === 'replace' && (await readColumns(session, target)) !== null ? target : null
      await createStage(session, stage, { like, columns, ordered: sync.write === 'upsert' })
      return toMap(await readColumns(session, stage))!
    }
    return { name: stage, sql: quoteTable(stage), columns: have, create }
  }

  async function beginCheckpoint(): Promise<{ loader: Loader; table: LoadTable }> {
    await fault('postgres.checkpoint.before')
    try {
      await session.script('BEGIN')
    } catch (error) {
      // Nothing was open: a connection that was dropped while the source took its time is simply made again.
      if (!isLostConnection(error) || signal.aborted) throw error
      session.destroy()
      session = await openSession()
      await session.script('BEGIN')
    }
    await advanceMark(session, turn, checkpoint + 1)
    await fault('postgres.checkpoint.marked')
    if (way !== 'stage') {
      await takeTurnAt(session, target.schema, target.table)
      await noticeOthers()
    }
    const table = describeTable()
    return { loader: createLoader(session, signal, table), table }
  }

  /** Another pipeline may have changed the table since we looked. */
  async function noticeOthers(): Promise<void> {
    const now = await readColumns(session, target)
    if (way === 'append') have = toMap(now)
    for (const { name, type } of queue.shape.written()) {
      const is = now?.find((column) => column.name === name)?.type
      if (is === undefined || is === type || is === 'text') continue
      if (is === 'jsonb' || is === 'json') {
        throw new ConnectorError(
          'destination',
          `Another session changed column ${name} of ${target.table} to ${is}; the run begins again`,
          { transient: true },
        )
      }
    }
  }

  async function flush(): Promise<void> {
    open ??= await beginCheckpoint()
    for (const item of queue.take()) await open.loader.write(item)
  }

  async function finishCheckpoint(cursor: Json): Promise<void> {
    const { loader, table } = open!
    await loader.finish()
    await fault('postgres.checkpoint.copied')
    if (way === 'merge' && table.columns !== null) {
      const columns = [...table.columns].map(([name, type]) => ({ name, type }))
      checkKey(columns, sync.primary_key)
      const into: LoadTable = {
        name: target,
        sql: quoteTable(target),
        columns: toMap(await readColumns(session, target)),
        create: async (all) => {
          await session.script(createTableSql(target, all, sync.primary_key))
          return toMap(all)!
        },
      }
      await reconcile(session, signal, into, columns)
      await mergeRows(session, { target, from: mergeTable, columns, key: sync.primary_key })
      await fault('postgres.checkpoint.merged')
    }
    await setCursor(session, turn, checkpoint + 1, cursor, way !== 'stage')
    await fault('postgres.checkpoint.ready')
    await commitTransaction((mark) => mark.checkpoint === checkpoint + 1)
    if (way !== 'merge') have = table.columns
    open = null
    checkpoint += 1
    await fault('postgres.checkpoint.committed')
  }

  async function commitTransaction(isIn: (mark: { checkpoint: number; published: boolean }) => boolean): Promise<void> {
    try {
      const { command } = await session.client.query('COMMIT')
      if (command !== 'COMMIT')
        throw new ConnectorError('internal', 'The transaction was rolled back instead of committed')
    } catch (error) {
      if (!isLostConnection(error) || signal.aborted) throw error
      session.destroy()
      session = await openSession()
      await session.script('BEGIN')
      const mark = await lockMark(session, turn)
      await session.script('COMMIT')
      if (mark === null || mark.seq !== turn.seq || mark.attempt !== turn.attempt) throw fencedError()
      if (!isIn(mark)) throw error
      log.info('The connection was lost during COMMIT; the mark shows that the rows are in.')
    }
  }

  /** After a commit that others can see: what the table looks like now. */
  async function tellSchema(changes: string[]): Promise<void> {
    if (changes.length === 0 && context.schema !== null) return
    const columns = await readColumns(session, target)
    if (columns === null) return
    for (const change of changes) log.info(`${target.schema}.${target.table}: ${change}.`)
    context.saveSchema(columns, changes)
  }

  async function publishStaged(cursor: Json): Promise<string[]> {
    await session.script('BEGIN')
    const mark = await lockMark(session, turn)
    await publishMark(session, turn, checkpoint, cursor)
    await fault('postgres.publish.marked')
    await takeTurnAt(session, target.schema, target.table)
    const changes = await publishStage({
      session,
      signal,
      log,
      sync,
      target,
      stage,
      columns: queue.shape.written(),
      staged_by: mark!.changed_by,
      fault,
    })
    await fault('postgres.publish.ready')
    await commitTransaction((found) => found.published)
    return changes
  }

  async function publishDirect(cursor: Json): Promise<void> {
    await session.script('BEGIN')
    await publishMark(session, turn, checkpoint, cursor)
    await fault('postgres.publish.marked')
    await commitTransaction((found) => found.published)
  }

  let told = false
  return {
    async write(page: Page) {
      if (published) return
      queue.add(page)
      if (queue.size >= (open === null ? HOLD_BYTES : CHUNK_BYTES)) await flush()
    },

    async commit(next, cursor) {
      if (published) return
      if (next !== checkpoint + 1)
        throw new ConnectorError(
          'internal',
          `Checkpoint ${next} does not follow ${checkpoint}, the last one in the mark`,
        )
      await flush()
      await finishCheckpoint(cursor)
      const changes = queue.takeChanges()
      if (way === 'stage' || (told && changes.length === 0)) return
      told = true
      await tellSchema(changes)
    },

    async publish(last, cursor) {
      await fault('postgres.publish.before')
      if (!published) {
        if (last !== checkpoint)
          throw new ConnectorError(
            'internal',
            `Checkpoint ${last} is to be published, and ${checkpoint} is the last one in the mark`,
          )
        if (way === 'stage') await tellSchema(await publishStaged(cursor))
        else await publishDirect(cursor)
        published = true
        for (const sentence of queue.report()) log.warn(sentence)
      }
      await fault('postgres.publish.after')
      await session.close()
    },

    async abort() {
      const late = setTimeout(() => session.destroy(), 3000)
      try {
        if (!signal.aborted) await cleanUp()
      } catch {
        // The next attempt and the sweep clean up as well.
      } finally {
        clearTimeout(late)
        session.destroy()
      }
    },
  }

  async function cleanUp(): Promise<void> {
    await open?.loader.fail()
    await session.script('ROLLBACK')
    if (way !== 'stage' || context.resumable || published) return
    await session.script('BEGIN')
    const mark = await lockMark(session, turn)
    if (mark?.seq === turn.seq && mark.attempt === turn.attempt && mark.stage !== null) {
      await session.script(`DROP TABLE IF EXISTS ${quoteTable(stage)}`)
      await setStage(session, turn, mark.checkpoint, null, true)
    }
    await session.script('COMMIT')
  }
}

function toMap(columns: readonly Column[] | null): Map<string, string> | null {
  return columns === null ? null : new Map(columns.map(({ name, type }) => [name, type]))
}

/** The second list decides where both have a column: the stage was widened on from the table. */
function mergeColumns(first: readonly Column[] | null, second: readonly Column[]): Column[] {
  const all = new Map([...(first ?? []), ...second].map((column) => [column.name, column]))
  all.delete('_sluice_n')
  return [...all.values()]
}
