/** The log of a run: its end at once, further pages as they are shown, and new lines as they are written. */
import { useCallback, useEffect, useRef, useState } from 'react'
import { answer, api } from '../../../api/client.ts'
import { followLog } from './follow-log.ts'
import { type LinesAnswer, LogLines } from './log-lines.ts'

const PAGE = 1000

export interface Log {
  lines: LogLines
  /** The end of it has arrived. */
  opened: boolean
  error: unknown
  /** Loads the lines between these numbers that are not known yet. */
  show(from: number, to: number): void
  retry(): void
}

/** For one run: another one needs another key. */
export function useLog(id: string, over: boolean): Log {
  const [lines, setLines] = useState(() => new LogLines())
  const [opened, setOpened] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const [tries, setTries] = useState(0)
  const redraw = useRedraw()
  const asked = useRef(new Set<number>())

  // A retry begins anew.
  useEffect(() => {
    const controller = new AbortController()
    const fresh = new LogLines()
    asked.current = new Set()
    setError(null)
    readLines(id, { limit: PAGE }, controller.signal).then(
      (page) => {
        fresh.addPage(page, null)
        setLines(fresh)
        setOpened(true)
      },
      (problem) => controller.signal.aborted || setError(problem),
    )
    return () => controller.abort()
  }, [id, tries])

  // Not the state of the run: its last lines may come after the event that it has ended.
  const [complete, setComplete] = useState(over)
  const visible = useVisible()
  useEffect(() => {
    // A hidden tab gives its connection back: a browser has only six of them.
    if (!opened || complete || !visible) return
    const controller = new AbortController()
    const onLine = (number: number, text: string) => {
      lines.append(number, text)
      redraw()
    }
    const { signal } = controller
    void followLog(id, { after: lines.last, signal, onLine }).then(() => signal.aborted || setComplete(true))
    return () => controller.abort()
  }, [id, opened, complete, visible, lines, redraw])

  const show = useCallback(
    (from: number, to: number) => {
      for (let page = Math.floor((from - 1) / PAGE); page <= Math.floor((to - 1) / PAGE); page += 1) {
        if (asked.current.has(page)) continue
        const before = Math.min((page + 1) * PAGE, lines.last) + 1
        if (isKnown(lines, page * PAGE + 1, before)) continue
        asked.current.add(page)
        readLines(id, { before, limit: PAGE }).then(
          (found) => {
            lines.addPage(found, before)
            redraw()
          },
          () => asked.current.delete(page),
        )
      }
    },
    [id, lines, redraw],
  )
  return { lines, opened, error, show, retry: () => setTries(tries + 1) }
}

function isKnown(lines: LogLines, from: number, before: number): boolean {
  for (let number = from; number < before; number += 1) if (lines.textOf(number) === undefined) return false
  return true
}

interface LinesQuery {
  q?: string
  level?: 'debug' | 'info' | 'warn' | 'error'
  before?: number
  limit: number
}

export async function readLines(id: string, query: LinesQuery, signal?: AbortSignal): Promise<LinesAnswer> {
  const params = { path: { run_id: id }, query }
  const { logs, numbers, more } = await answer(
    api.GET('/api/pipelines/runs/{run_id}/logs', { params, ...(signal && { signal }) }),
  )
  return { logs, numbers: numbers ?? [], more }
}

/** Lines arrive by the thousand; the page is drawn again once per frame. */
function useRedraw(): () => void {
  const [, setVersion] = useState(0)
  const frame = useRef(0)
  useEffect(() => () => cancelAnimationFrame(frame.current), [])
  return useCallback(() => {
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0
      setVersion((version) => version + 1)
    })
  }, [])
}

function useVisible(): boolean {
  const [visible, setVisible] = useState(document.visibilityState === 'visible')
  useEffect(() => {
    const change = () => setVisible(document.visibilityState === 'visible')
    document.addEventListener('visibilitychange', change)
    return () => document.removeEventListener('visibilitychange', change)
  }, [])
  return visible
}
