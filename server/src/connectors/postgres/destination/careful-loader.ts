/**
 * The loader of a pipeline that quarantines: rows are held until there are enough for a COPY of their own in a savepoint, so
 * that those of a COPY that fails can be sent again in halves.
 */
import type { LoadContext, RefusedRecords } from '../../contract.ts'
import { writeRefusedRow } from '../../types/refused-row.ts'
import { quoteName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { neutralType } from '../shared/type-names.ts'
import { copyIn } from './copy-in.ts'
import { createLoader, type Loader, reconcile } from './loader.ts'
import type { QueueItem } from './page-queue.ts'
import { describeRefusal, tryRows } from './refused-rows.ts'
import type { LoadTable, TableColumn } from './table.ts'

const BATCH_BYTES = 1024 * 1024
const CHUNK_BYTES = 256 * 1024
const NEWLINE = 10

export function openLoader(
  session: Session,
  { signal, refused }: Pick<LoadContext, 'signal' | 'refused'>,
  table: LoadTable,
): Loader {
  return refused ? createCarefulLoader(session, signal, table, refused) : createLoader(session, signal, table)
}

function createCarefulLoader(session: Session, signal: AbortSignal, table: LoadTable, refused: RefusedRecords): Loader {
  let held: QueueItem[] = []
  let bytes = 0
  let written = 0

  async function flush(): Promise<void> {
    const [first] = held
    if (first === undefined) return
    const { columns } = first
    await reconcile(session, signal, table, columns)
    const rows = Buffer.concat(held.map((item) => item.rows))
    for (const item of held) item.release?.()
    held = []
    bytes = 0
    const load = columns.length === 0 ? insertEmpty : copyRows
    await loadHalves(rows, findEnds(rows), (part) => load(session, table.sql, columns, part))

    async function loadHalves(all: Buffer, ends: number[], act: (part: Buffer) => Promise<void>): Promise<void> {
      const { refusal } = await tryRows(session, () => act(all))
      if (!refusal) {
        written += ends.length
        return
      }
      if (ends.length === 1) return refuse(all, columns, describeRefusal(refusal))
      const middle = ends.length >> 1
      const cut = ends[middle - 1]!
      await loadHalves(all.subarray(0, cut), ends.slice(0, middle), act)
      const rest = ends.slice(middle).map((end) => end - cut)
      await loadHalves(all.subarray(cut), rest, act)
    }
  }

  async function refuse(row: Buffer, columns: readonly TableColumn[], reason: string): Promise<void> {
    const named = columns.map(({ name, type }) => ({ name, type: neutralType(type) }))
    await refused.add(writeRefusedRow(named, row.toString('utf8', 0, row.length - 1)), reason)
  }

  return {
    async write(item) {
      if (held.length > 0 && !sameColumns(held[0]!.columns, item.columns)) await flush()
      held.push(item)
      bytes += item.rows.length
      if (bytes >= BATCH_BYTES) await flush()
    },
    async finish() {
      await flush()
      return written
    },
  }
}

function sameColumns(some: readonly TableColumn[], others: readonly TableColumn[]): boolean {
  return (
    some.length === others.length &&
    some.every(({ name, type }, at) => name === others[at]!.name && type === others[at]!.type)
  )
}

/** Where each row ends. */
function findEnds(rows: Buffer): number[] {
  const ends: number[] = []
  for (let at = rows.indexOf(NEWLINE); at !== -1; at = rows.indexOf(NEWLINE, at + 1)) ends.push(at + 1)
  return ends
}

async function copyRows(session: Session, table: string, columns: readonly TableColumn[], rows: Buffer): Promise<void> {
  const list = columns.map(({ name }) => quoteName(name)).join(', ')
  const copy = copyIn(session, `COPY ${table} (${list}) FROM STDIN`)
  for (let at = 0; at < rows.length; at += CHUNK_BYTES) await copy.write(rows.subarray(at, at + CHUNK_BYTES))
  await copy.finish()
}

/** COPY does not accept an empty column list. Each row is just its newline. */
async function insertEmpty(session: Session, table: string, _: readonly TableColumn[], rows: Buffer): Promise<void> {
  await session.script(`INSERT INTO ${table} SELECT FROM generate_series(1, ${rows.length})`)
}
