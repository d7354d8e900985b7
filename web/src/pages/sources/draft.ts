/**
 * What is typed and not saved yet, kept in this browser for this person: it survives a reload, an expired session and a
 * closed tab. Secrets are never part of it.
 */
import { useSuspenseQuery } from '@tanstack/react-query'
import { useCallback, useEffect, useRef, useState } from 'react'
import { meQuery } from '../../api/queries.ts'
import type { Settings } from '../../components/schema-form/schema.ts'

export interface Draft {
  name: string
  source_name: string
  description: string
  code: string
  /** Settings for trials, without secrets. */
  config: Settings
}

interface Stored extends Draft {
  at: string
}

const WRITE_AFTER_MS = 250

export interface DraftState {
  draft: Draft
  change(part: Partial<Draft>): void
  /** When the kept draft was written, if there was one at the start. */
  restoredAt: string | null
  /** Takes a state as the saved one; nothing is kept any more. */
  settle(draft: Draft): void
}

/** `place`: the source, or the template of a new one. */
export function useDraft(place: string, start: Draft): DraftState {
  const { id, organization } = useSuspenseQuery(meQuery).data
  const key = `sluice.draft.${id}.${organization.id}.${place}`
  const [kept] = useState(() => read(key))
  const [draft, setDraft] = useState<Draft>(kept ?? start)
  const [restoredAt, setRestoredAt] = useState(kept?.at ?? null)
  const latest = useRef(draft)
  /** Of the write that is due, or 0. */
  const timer = useRef(0)

  const flush = useCallback(() => {
    if (timer.current === 0) return
    clearTimeout(timer.current)
    timer.current = 0
    write(key, latest.current)
  }, [key])

  const change = useCallback(
    (part: Partial<Draft>) => {
      latest.current = { ...latest.current, ...part }
      setDraft(latest.current)
      clearTimeout(timer.current)
      timer.current = window.setTimeout(flush, WRITE_AFTER_MS)
    },
    [flush],
  )

  const settle = useCallback(
    (settled: Draft) => {
      clearTimeout(timer.current)
      timer.current = 0
      latest.current = settled
      remove(key)
      setRestoredAt(null)
      setDraft(settled)
    },
    [key],
  )

  useEffect(() => {
    addEventListener('pagehide', flush)
    return () => {
      removeEventListener('pagehide', flush)
      flush()
    }
  }, [flush])

  return { draft, change, restoredAt, settle }
}

function read(key: string): Stored | null {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(key) ?? 'null')
    if (typeof value !== 'object' || value === null) return null
    const { name, source_name, description, code, config, at } = value as Record<string, unknown>
    const texts = [name, source_name, description, code, at]
    if (!texts.every((text) => typeof text === 'string') || typeof config !== 'object' || config === null) return null
    return value as Stored
  } catch {
    return null
  }
}

/** A browser without room keeps no draft; the text in the editor is not touched by that. */
function write(key: string, draft: Draft): void {
  try {
    localStorage.setItem(key, JSON.stringify({ ...draft, at: new Date().toISOString() } satisfies Stored))
  } catch {}
}

function remove(key: string): void {
  try {
    localStorage.removeItem(key)
  } catch {}
}
