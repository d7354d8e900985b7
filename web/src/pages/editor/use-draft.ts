/** The draft of one editor, kept across a reload of the page without the secrets that were typed. */
import { useCallback, useEffect, useState } from 'react'
import type { Schemas } from '../../api/client.ts'
import { type Known, schemasOf } from './connectors.ts'
import { type Draft, EMPTY_DRAFT } from './draft.ts'
import { type Fields, getIn, isSame, parsePath } from './fields.ts'
import { doubtfulPaths, dropSecrets, maskSecrets, restoreMasks, secretPaths } from './secrets.ts'

type Pipeline = Schemas['Pipeline']

/** A pipeline as the editor compares with it: its secrets masked. */
export function toDraft(pipeline: Pipeline, known: Known): Draft {
  const config = pipeline.config as unknown as Fields
  const { name, schedule, timezone, enabled, domain_id } = pipeline
  return {
    ...EMPTY_DRAFT,
    ...{ name, schedule, timezone, enabled, domain_id },
    config: maskSecrets(config, secretPaths(schemasOf(known, config))),
  }
}

interface Kept {
  draft: Draft
  /** Secrets were typed, and are not in it. */
  dropped: boolean
  /** Of the pipeline when the draft was begun. */
  updated_at: string | null
}

export interface DraftState {
  draft: Draft
  update(change: (draft: Draft) => Draft): void
  replace(draft: Draft): void
  /** Grows whenever all of it is replaced, so that fields with a text of their own are drawn anew. */
  revision: number
  dirty: boolean
  /** What was found in this tab when the page was opened. */
  restored: { dropped: boolean } | null
  /** Somebody else has saved the pipeline since the draft was begun. */
  outdated: boolean
  discard(): void
  problems: Record<string, string>
  setProblems(problems: Record<string, string>): void
}

const WAIT_MS = 250

export function useDraft(key: string, stored: Draft, updatedAt: string | null, known: Known): DraftState {
  const [found] = useState(() => readKept(key, stored))
  const [{ draft, problems, revision }, set] = useState(() => ({
    draft: found?.draft ?? stored,
    problems: {} as Record<string, string>,
    revision: 0,
  }))
  const [restored, setRestored] = useState(found && { dropped: found.dropped })
  const [outdated, setOutdated] = useState(found !== null && found.updated_at !== updatedAt)
  const [base, setBase] = useState(stored)
  if (!isSame(base, stored)) {
    setBase(stored)
    // Whoever has changed nothing sees what is stored now, and must not save what was there before.
    if (isSame(draft, base)) set((now) => ({ draft: stored, problems: {}, revision: now.revision + 1 }))
    else setOutdated(true)
  }
  const dirty = !isSame(draft, stored)
  useEffect(() => {
    const timer = setTimeout(
      () => (dirty ? keep(key, { draft, stored, updatedAt, known }) : sessionStorage.removeItem(key)),
      WAIT_MS,
    )
    return () => clearTimeout(timer)
  }, [key, draft, stored, dirty, updatedAt, known])
  const update = useCallback(
    (change: (draft: Draft) => Draft) =>
      set((now) => {
        const changed = change(now.draft)
        return { ...now, draft: changed, problems: stillOpen(now.problems, now.draft, changed) }
      }),
    [],
  )
  const replace = useCallback(
    (next: Draft) => set((now) => ({ draft: next, problems: {}, revision: now.revision + 1 })),
    [],
  )
  return {
    draft,
    update,
    replace,
    revision,
    dirty,
    restored,
    outdated,
    problems,
    discard: useCallback(() => {
      sessionStorage.removeItem(key)
      setRestored(null)
      setOutdated(false)
      replace(stored)
    }, [key, stored, replace]),
    setProblems: useCallback((next: Record<string, string>) => set((now) => ({ ...now, problems: next })), []),
  }
}

/** A problem is gone from the screen once its field has another value. */
function stillOpen(problems: Record<string, string>, before: Draft, after: Draft): Record<string, string> {
  return Object.fromEntries(
    Object.entries(problems).filter(([path]) => {
      const steps = parsePath(path)
      return isSame(getIn(before, steps), getIn(after, steps))
    }),
  )
}

export function draftKey(person: string, organization: string, place: string): string {
  return `sluice.draft.${person}.${organization}.${place}`
}

interface Keeping {
  draft: Draft
  stored: Draft
  updatedAt: string | null
  known: Known
}

function keep(key: string, { draft, stored, updatedAt, known }: Keeping): void {
  const paths = doubtfulPaths(schemasOf(known, draft.config))
  const { config, dropped } = dropSecrets(draft.config, paths, stored.config)
  const kept: Kept = { draft: { ...draft, config }, dropped, updated_at: updatedAt }
  try {
    sessionStorage.setItem(key, JSON.stringify(kept))
  } catch {
    // Full or forbidden: the draft then lives only as long as the page.
  }
}

function readKept(key: string, stored: Draft): Kept | null {
  try {
    const kept: Kept | null = JSON.parse(sessionStorage.getItem(key) ?? 'null')
    if (kept === null) return null
    const config = restoreMasks(kept.draft.config, stored.config) as Fields
    return { ...kept, draft: { ...EMPTY_DRAFT, ...kept.draft, config } }
  } catch {
    return null
  }
}
