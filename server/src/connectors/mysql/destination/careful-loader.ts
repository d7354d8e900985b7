/**
 * The loader of a pipeline that quarantines: rows are held until there are enough for a transaction of their own, so that
 * those of one that fails can be sent again in halves. It loads into tables of our own only, between two transactions of the
 * mark.
 */
import type { RefusedRecords } from '../../contract.ts'
import type { TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { createLoader, type Loader, RowsChanged } from './loader.ts'
import type { QueueItem } from './page-queue.ts'
import { describeRefusal, isRefusal, writeLoadedRow } from './refused-rows.ts'

const BATCH_BYTES = 1024 * 1024
const NEWLINE = 10

export function createCarefulLoader(
  session: Session,
  table: TableName,
  local: boolean,
  refused: RefusedRecords,
): Loader {
  let held: QueueItem[] = []
  let bytes = 0

  async function flush(): Promise<void> {
    const [first] = held
    if (first === undefined) return
    const rows = Buffer.concat(held.map((item) => item.rows))
    held = []
    bytes = 0
    await loadHalves(rows, findEnds(rows), first.columns)
  }

  async function loadHalves(rows: Buffer, ends: readonly number[], columns: QueueItem['columns']): Promise<void> {
    const refusal = await tryLoad({ rows, records: ends.length, columns })
    if (refusal === null) return
    if (ends.length === 1)
      return refused.add(writeLoadedRow(columns, rows.toString('utf8', 0, rows.length - 1)), refusal)
    const middle = ends.length >> 1
    const cut = ends[middle - 1]!
    await loadHalves(rows.subarray(0, cut), ends.slice(0, middle), columns)
    const rest = ends.slice(middle).map((end) => end - cut)
    await loadHalves(rows.subarray(cut), rest, columns)
  }

  /** The reason if the server does not take the rows as they are; nothing of them remains then. */
  async function tryLoad(item: QueueItem): Promise<string | null> {
    await session.run('START TRANSACTION')
    const loader = createLoader(session, table, local)
    try {
      await loader.write(item)
      await loader.finish()
      await session.run('COMMIT')
      return null
    } catch (error) {
      if (!(error instanceof RowsChanged) && !isRefusal(error)) throw error
      await session.run('ROLLBACK')
      return error instanceof RowsChanged ? error.said : describeRefusal(error)
    }
  }

  return {
    async write(item) {
      if (held.length > 0 && JSON.stringify(held[0]!.columns) !== JSON.stringify(item.columns)) await flush()
      held.push(item)
      bytes += item.rows.length
      if (bytes >= BATCH_BYTES) await flush()
    },
    finish: flush,
  }
}

/** Where each row ends. */
function findEnds(rows: Buffer): number[] {
  const ends: number[] = []
  for (let at = rows.indexOf(NEWLINE); at !== -1; at = rows.indexOf(NEWLINE, at + 1)) ends.push(at + 1)
  return ends
}
