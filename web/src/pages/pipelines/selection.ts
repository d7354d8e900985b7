/** Which rows are selected. Kept with their items, because a row that is scrolled away is no longer loaded. */
import { useRef, useState } from 'react'
import type { PipelineItem } from './queries.ts'
import type { Rows } from './use-rows.ts'

export interface Selection {
  items: ReadonlyMap<string, PipelineItem>
  /** With `extend`, everything between this row and the one chosen last. */
  choose(index: number, extend: boolean): void
  add(items: readonly PipelineItem[]): void
  /** Those that are gone are no longer selected. */
  drop(ids: readonly string[]): void
  clear(): void
}

type Listed = Pick<Rows, 'itemAt' | 'indexOf'>

export function useSelection({ itemAt, indexOf }: Listed): Selection {
  const [items, setItems] = useState<ReadonlyMap<string, PipelineItem>>(new Map())
  // By its id: the order of the rows may change between two clicks.
  const anchor = useRef<string | null>(null)
  return {
    items,
    choose(index, extend) {
      const item = itemAt(index)
      if (!item) return
      const next = new Map(items)
      const start = anchor.current === null ? undefined : indexOf(anchor.current)
      if (extend && start !== undefined) {
        const [first, last] = [Math.min(start, index), Math.max(start, index)]
        for (let at = first; at <= last; at++) {
          const each = itemAt(at)
          if (each) next.set(each.id, each)
        }
      } else if (!next.delete(item.id)) next.set(item.id, item)
      anchor.current = item.id
      setItems(next)
    },
    add: (more) => setItems(new Map([...items, ...more.map((item) => [item.id, item] as const)])),
    drop(ids) {
      const next = new Map(items)
      for (const id of ids) next.delete(id)
      setItems(next)
    },
    clear() {
      anchor.current = null
      setItems(new Map())
    },
  }
}
