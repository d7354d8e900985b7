/** The list itself. Of ten thousand rows only those in view are in the page; the window scrolls. */

import { useNavigate, useSearch } from '@tanstack/react-router'
import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useLayoutEffect, useRef, useState } from 'react'
import styles from './pipeline-list.module.css'
import { PipelineRow, type RowEvents } from './pipeline-row.tsx'
import type { Selection } from './selection.ts'
import { useEndNames } from './use-end-names.ts'
import type { Rows } from './use-rows.ts'

interface Props extends Omit<RowEvents, 'onChoose' | 'onMove'> {
  rows: Rows
  selection: Selection
  colors: ReadonlyMap<string, string | null>
  /** All rows that match, as far as one action can take them. */
  onChooseAll(): void
}

export function PipelineList({ rows, selection, colors, onChooseAll, onEnable, onRun }: Props) {
  const list = useRef<HTMLTableSectionElement>(null)
  const [margin, setMargin] = useState(0)
  const height = useRowHeight()
  const nameOf = useEndNames()
  const virtual = useWindowVirtualizer({
    count: rows.total,
    estimateSize: () => height,
    overscan: 8,
    scrollMargin: margin,
  })
  useLayoutEffect(() => setMargin(list.current!.offsetTop), [])
  useLayoutEffect(() => virtual.measure(), [virtual, height])
  const drawn = virtual.getVirtualItems()
  const [first, last] = [drawn[0]?.index ?? 0, drawn.at(-1)?.index ?? 0]
  useEffect(() => rows.show(first, last))

  // The events stay the same object, so that rows which did not change are not drawn again.
  const latest = useRef({ rows, selection, onEnable, onRun, virtual })
  latest.current = { rows, selection, onEnable, onRun, virtual }
  const [events] = useState<RowEvents>(() => ({
    onChoose: (index, extend) => latest.current.selection.choose(index, extend),
    onMove: (index, extend) => move(latest.current, list.current!, index, extend),
    onEnable: (item, enabled) => latest.current.onEnable(item, enabled),
    onRun: (item) => latest.current.onRun(item),
  }))

  return (
    <table
      aria-label="Pipelines"
      aria-rowcount={rows.total + 1}
      aria-busy={rows.isOld || undefined}
      className={styles.table}
    >
      <thead className={styles.group}>
        <Head count={rows.total} selection={selection} onChooseAll={onChooseAll} />
      </thead>
      <tbody ref={list} className={styles.rows} style={{ height: virtual.getTotalSize() }}>
        {drawn.map(({ index, start, key }) => {
          const item = rows.itemAt(index)
          const selected = item !== undefined && selection.items.has(item.id)
          return (
            <tr
              key={key}
              aria-rowindex={index + 2}
              className={`${styles.row} ${selected ? styles.selected : ''} ${rows.isOld ? styles.old : ''}`}
              style={{ transform: `translateY(${start - virtual.options.scrollMargin}px)` }}
            >
              {item ? (
                <PipelineRow
                  index={index}
                  item={item}
                  activity={rows.activityOf(item.id)}
                  color={colors.get(item.domain_id ?? '') ?? null}
                  nameOf={nameOf}
                  selected={selected}
                  events={events}
                />
              ) : (
                <td className={styles.waiting}>
                  <span className="visually-hidden">Loading</span>
                </td>
              )}
            </tr>
          )
        })}
      </tbody>
    </table>
  )
}

interface Movable {
  rows: Rows
  selection: Selection
  virtual: { scrollToIndex(index: number): void }
}

function move({ rows, selection, virtual }: Movable, list: HTMLElement, index: number, extend: boolean): void {
  if (index < 0 || index >= rows.total) return
  if (extend) selection.choose(index, true)
  virtual.scrollToIndex(index)
  requestAnimationFrame(() => list.querySelector<HTMLElement>(`[data-row="${index}"]`)?.focus())
}

const SORTS = { name: 'Name', last_run_at: 'Last runs', next_run_at: 'Next run' } as const

function Head({ count, selection, onChooseAll }: { count: number } & Pick<Props, 'selection' | 'onChooseAll'>) {
  const some = selection.items.size > 0
  const all = some && selection.items.size >= count
  return (
    <tr aria-rowindex={1} className={`${styles.row} ${styles.head}`}>
      <th className={styles.check}>
        <input
          type="checkbox"
          aria-label="Select all"
          checked={all}
          ref={(box) => {
            if (box) box.indeterminate = some && !all
          }}
          onChange={() => (some ? selection.clear() : onChooseAll())}
        />
      </th>
      <th className={styles.state}>
        <span className="visually-hidden">State</span>
      </th>
      <SortHead by="name" className={styles.name!} />
      <th className={styles.way}>From and to</th>
      <SortHead by="last_run_at" className={styles.strip!} />
      <th className={styles.success}>Last success</th>
      <SortHead by="next_run_at" className={styles.next!} />
      <th className={styles.domain}>Domain</th>
      <th className={styles.switch}>
        <span className="visually-hidden">Enabled</span>
      </th>
      <th className={styles.run}>
        <span className="visually-hidden">Run now</span>
      </th>
    </tr>
  )
}

/** Three clicks: one way, the other way, and back to the newest first. */
function SortHead({ by, className }: { by: keyof typeof SORTS; className: string }) {
  const { sort, ...rest } = useSearch({ from: '/frame/pipelines' })
  const navigate = useNavigate({ from: '/pipelines' })
  const [near, far] = by === 'last_run_at' ? [`-${by}`, by] : [by, `-${by}`]
  const next = sort === near ? far : sort === far ? undefined : near
  const way = sort === by ? 'ascending' : sort === `-${by}` ? 'descending' : 'none'
  return (
    <th aria-sort={way} className={className}>
      <button type="button" onClick={() => navigate({ search: next ? { ...rest, sort: next } : rest })}>
        {SORTS[by]}
        <span aria-hidden="true">{way === 'none' ? '' : way === 'ascending' ? ' ↑' : ' ↓'}</span>
      </button>
    </th>
  )
}

/** As in the style sheet: a finger needs a higher row, and a narrow screen two lines. */
function useRowHeight(): number {
  const read = () => {
    const row = Number.parseFloat(getComputedStyle(document.documentElement).getPropertyValue('--row'))
    return window.matchMedia('(max-width: 699px)').matches ? Math.max(56, row) : row
  }
  const [height, setHeight] = useState(read)
  useEffect(() => {
    const measure = () => setHeight(read())
    window.addEventListener('resize', measure)
    return () => window.removeEventListener('resize', measure)
  })
  return height
}
