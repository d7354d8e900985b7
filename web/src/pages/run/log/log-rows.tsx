import { useVirtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, type RefObject, useEffect, useLayoutEffect, useRef } from 'react'
import { LogLine } from './log-line.tsx'
import styles from './log-view.module.css'

/** What is listed: all lines, or some. */
export interface Rows {
  rows: number
  numberAt(row: number): number
  rowOf(number: number): number
  textOf(number: number): string | undefined
}

interface Props {
  rows: Rows
  /** The highest number of all, which decides how wide the numbers are. */
  last: number
  /** Tells which numbers are visible, to load what is not known. */
  onShow: ((from: number, to: number) => void) | undefined
  wrap: boolean
  following: boolean
  onFollowing(following: boolean): void
  /** The line to go to, once per turn. */
  target: { number: number | undefined; turn: number }
  q: string
  /** What to say if there are no rows. */
  none: string
  onStep(by: 1 | -1): void
}

const LINE = 20
/** While the scrollbar is dragged, lines in between are not worth loading. */
const SETTLED_MS = 60

export function LogRows(props: Props) {
  const { rows, last, onShow, wrap, onFollowing, target, q, none, onStep } = props
  const box = useRef<HTMLElement>(null)
  const virtual = useVirtualizer({
    count: rows.rows,
    getScrollElement: () => box.current,
    estimateSize: () => LINE,
    overscan: 12,
  })
  const items = virtual.getVirtualItems()

  // Heights are only measured where lines wrap.
  useLayoutEffect(() => virtual.measure(), [wrap])
  useAnchor(box, props)

  const shown = [items[0]?.index ?? 0, items.at(-1)?.index ?? 0]
  const [from, to] = [rows.numberAt(shown[0]!), rows.numberAt(shown[1]!)]
  useEffect(() => {
    if (onShow === undefined || rows.rows === 0) return
    const timer = setTimeout(() => onShow(from, to), SETTLED_MS)
    return () => clearTimeout(timer)
  }, [from, to, onShow, rows.rows])

  // Only a new target moves the log.
  useEffect(() => {
    if (target.number === undefined) return
    onFollowing(false)
    virtual.scrollToIndex(rows.rowOf(target.number), { align: 'center' })
  }, [target])

  function press({ key, ctrlKey, metaKey, altKey }: KeyboardEvent) {
    if (ctrlKey || metaKey || altKey) return
    if (key === 'End' || key === 'f') onFollowing(true)
    else if (key === 'n') onStep(1)
    else if (key === 'N') onStep(-1)
  }
  return (
    <section
      ref={box}
      className={`${styles.log} ${wrap ? styles.wrap : ''}`}
      onScroll={({ currentTarget }) => {
        const { scrollTop, clientHeight, scrollHeight } = currentTarget
        onFollowing(scrollHeight - scrollTop - clientHeight < LINE * 1.5)
      }}
      onKeyDown={press}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      tabIndex={0}
      aria-label="Log"
    >
      {rows.rows === 0 && <p className={styles.none}>{none}</p>}
      <div
        className={styles.lines}
        style={{ height: virtual.getTotalSize(), '--digits': `${Math.max(3, String(last).length)}ch` } as object}
      >
        {items.map(({ key, index, start }) => {
          const number = rows.numberAt(index)
          return (
            <div
              key={key}
              data-index={index}
              ref={wrap ? virtual.measureElement : undefined}
              className={`${styles.line} ${number === target.number ? styles.target : ''}`}
              style={{ transform: `translateY(${start}px)` }}
            >
              <LogLine number={number} line={rows.textOf(number)} q={q} />
            </div>
          )
        })}
      </div>
    </section>
  )
}

/**
 * Keeps the place when rows come or go: at the end while it follows, else at the line that is at the top, because rows above it
 * vanish when it turns out which lines were omitted.
 */
function useAnchor(box: RefObject<HTMLElement | null>, { rows, wrap, following }: Props): void {
  const top = useRef<{ number: number; count: number }>({ number: 0, count: 0 })
  useLayoutEffect(() => {
    const element = box.current!
    if (following) element.scrollTop = element.scrollHeight
    else if (!wrap && top.current.count !== rows.rows && top.current.number > 0) {
      const row = rows.rowOf(top.current.number)
      if (row !== Math.floor(element.scrollTop / LINE)) element.scrollTop = row * LINE + (element.scrollTop % LINE)
    }
    top.current = { number: rows.numberAt(Math.floor(element.scrollTop / LINE)), count: rows.rows }
  })
}
