/** Which columns come, go or get another type, and what that does to the target. */
import type { Column, Sync } from '../connectors/contract.ts'
import type { ColumnType } from '../connectors/types/column-types.ts'
import { commonType } from '../connectors/types/widening.ts'

export interface ColumnDifference {
  name: string
  change: 'added' | 'removed' | 'type'
  before: string | null
  after: string | null
  /** For the target. */
  effect: string
}

export interface KnownColumns {
  /** Of the target after the last run. */
  target: readonly Column[]
  /** As the last run read them; null if its output does not tell. */
  read: readonly Column[] | null
}

export function compareColumns(
  now: readonly Pick<Column, 'name' | 'type'>[],
  { target, read }: KnownColumns,
  { schema_change }: Pick<Sync, 'schema_change'>,
): ColumnDifference[] {
  const typesOf = (columns: readonly Column[]) => new Map(columns.map(({ name, type }) => [name, type]))
  const [current, last, stored] = [typesOf(now), typesOf(read ?? target), typesOf(target)]
  const forAdded = { evolve: 'the next run adds it', discard: 'runs leave it out', fail: 'the next run fails' }
  const forWider = (type: ColumnType) => ({
    evolve: `the next run widens it to ${type}`,
    discard: 'runs leave out values that do not fit',
    fail: 'the next run fails',
  })
  const added = now.flatMap(({ name, type }): ColumnDifference[] =>
    last.has(name)
      ? []
      : [
          {
            name,
            change: 'added',
            before: null,
            after: type,
            effect: stored.has(name) ? 'the target has it already' : forAdded[schema_change],
          },
        ],
  )
  const removed = [...last].flatMap(([name, type]): ColumnDifference[] =>
    current.has(name)
      ? []
      : [{ name, change: 'removed', before: type, after: null, effect: 'it stays in the target, without new values' }],
  )
  const changed = now.flatMap(({ name, type }): ColumnDifference[] => {
    const before = last.get(name)
    if (before === undefined || before === type) return []
    const held = stored.get(name) ?? before
    const needed = commonType(held, type)
    // Targets have fewer types than sources, so a difference between the two alone says nothing.
    if (read === null && needed === held) return []
    const effect = needed === held ? 'the target holds it already' : forWider(needed)[schema_change]
    return [{ name, change: 'type', before, after: type, effect }]
  })
  return [...added, ...removed, ...changed]
}
