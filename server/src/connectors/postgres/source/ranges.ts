/**
 * A whole table read by several sessions at once, each a range of its blocks at a time, all under one exported snapshot:
 * together they see exactly what one session would have seen. Pages arrive in no order.
 */

import type { Session } from '../shared/session.ts'
import { readText } from '../shared/values.ts'
import { type CopyOptions, copyOut, type Rows } from './copy-out.ts'

/**
 * 32 MB of table: large enough that fetching the next range costs nothing, small enough that all sessions finish
 * together.
 */
const RANGE_BLOCKS = 4096

export function worthSplitting(blocks: number): boolean {
  return blocks >= 2 * RANGE_BLOCKS
}

/** Null if the server cannot export snapshots; then the transaction has been restarted. */
export async function exportSnapshot(session: Session): Promise<string | null> {
  try {
    const [row] = await session.query('SELECT pg_export_snapshot() AS id', [], { id: readText })
    return row?.id ?? null
  } catch {
    await session.rollback()
    await session.begin({ repeatable: true })
    return null
  }
}

/** `buildSql` gets the WHERE clause of a range. */
export async function* readRanges(
  sessions: readonly Session[],
  blocks: number,
  buildSql: (where: string) => string,
  options: CopyOptions,
): AsyncGenerator<Rows> {
  let next = 0
  const takeRange = (): string | null => {
    if (next >= blocks) return null
    const from = next
    next += RANGE_BLOCKS
    // The last range is open-ended: blocks may have been added since they were counted.
    const upper = next >= blocks ? '' : ` AND t.ctid < '(${next},0)'::tid`
    return `WHERE t.ctid >= '(${from},0)'::tid${upper}`
  }
  yield* merge(
    sessions.map(async function* (session) {
      for (let range = takeRange(); range !== null; range = takeRange())
        yield* copyOut(session, buildSql(range), options)
    }),
  )
}

/** Items from any of the generators as they arrive. Each generator has at most one item waiting. */
async function* merge<T>(generators: AsyncGenerator<T>[]): AsyncGenerator<T> {
  const arrived: { index: number; result: IteratorResult<T> }[] = []
  let failure: { error: unknown } | null = null
  let wake: (() => void) | null = null
  const pull = (index: number) => {
    generators[index]!.next().then(
      (result) => {
        arrived.push({ index, result })
        wake?.()
      },
      (error) => {
        failure ??= { error }
        wake?.()
      },
    )
  }
  let open = generators.length
  for (let index = 0; index < open; index += 1) pull(index)
  while (open > 0) {
    if (failure) throw (failure as { error: unknown }).error
    const item = arrived.shift()
    if (item === undefined) {
      await new Promise<void>((resolve) => {
        wake = resolve
      })
      wake = null
    } else if (item.result.done) open -= 1
    else {
      pull(item.index)
      yield item.result.value
    }
  }
}
