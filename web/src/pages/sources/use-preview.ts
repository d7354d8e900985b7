import { useCallback, useEffect, useRef, useState } from 'react'
import type { Trial } from './authored.ts'
import { type Preview, runPreview } from './preview.ts'

export interface PreviewState {
  preview: Preview | null
  error: unknown
  /** When the one under way began, by performance.now(); null if there is none. */
  since: number | null
  start(trial: Trial, maxRecords: number): void
  cancel(): void
}

/** One preview at a time: a new one ends the one before, also on the server. */
export function usePreview(): PreviewState {
  const [state, setState] = useState<Pick<PreviewState, 'preview' | 'error' | 'since'>>({
    preview: null,
    error: null,
    since: null,
  })
  const running = useRef<AbortController | null>(null)

  const cancel = useCallback(() => {
    running.current?.abort()
    running.current = null
    setState((before) => ({ ...before, since: null }))
  }, [])

  const start = useCallback((trial: Trial, maxRecords: number) => {
    running.current?.abort()
    const controller = new AbortController()
    running.current = controller
    setState((before) => ({ ...before, error: null, since: performance.now() }))
    runPreview(trial, maxRecords, controller.signal).then(
      (preview) => {
        if (running.current === controller) setState({ preview, error: null, since: null })
      },
      (error: unknown) => {
        if (running.current === controller) setState({ preview: null, error, since: null })
      },
    )
  }, [])

  useEffect(() => () => running.current?.abort(), [])
  return { ...state, start, cancel }
}
