import { useBlocker, useSearch } from '@tanstack/react-router'
import { lazy, Suspense, useCallback, useMemo, useRef, useState } from 'react'
import type { Schemas } from '../../api/client.ts'
import { usePerson } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { Skeleton } from '../../components/notice.tsx'
import { type Above, PageHead } from '../../components/page-head.tsx'
import { Tabs } from '../../components/tabs.tsx'
import { connectorOf, type Known, titleOf } from './connectors.ts'
import { type Draft, sideOf, streamOf } from './draft.ts'
import type { Editor } from './editor.ts'
import { LeaveDialog } from './leave-dialog.tsx'
import styles from './pipeline-editor.module.css'
import { ReviewSection } from './review-section.tsx'
import type { NewPipelineSearch } from './routes.ts'
import { StepSections } from './step-sections.tsx'
import { findGaps, STEPS } from './steps.ts'
import { Summary } from './summary.tsx'
import { abilitiesOf, syncOf } from './sync.ts'
import { type DraftState, draftKey, useDraft } from './use-draft.ts'

const JsonView = lazy(() => import('./json-view.tsx'))

interface Props {
  pipeline: Schemas['Pipeline'] | null
  stored: Draft
  /** What its draft is kept under. */
  place: string
  known: Known
}

export function PipelineEditor({ pipeline, stored, place, known }: Props) {
  const { view, ...search } = useSearch({ strict: false }) as NewPipelineSearch
  const { editor, key } = useEditor({ pipeline, stored, place, known })
  const { draft, dirty, sync } = editor
  const [jsonFault, setJsonFault] = useState<string | null>(null)
  const gaps = findGaps(editor)
  const gap = STEPS.map((step) => gaps[step]).find((words) => words !== null) ?? null
  const { blocker, leave } = useLeaving(dirty, key)
  const source = titleOf(known, 'source', sideOf(draft, 'source'))
  const destination = titleOf(known, 'destination', sideOf(draft, 'destination'))
  const fault = view === 'json' ? jsonFault : null
  return (
    <>
      <PageHead
        title={pipeline ? `Edit ${pipeline.name}` : 'New pipeline'}
        trail={[
          ['Pipelines', { to: '/pipelines' }],
          ...(pipeline ? ([[pipeline.name, { to: '/pipelines/$id', params: { id: pipeline.id } }]] as Above[]) : []),
        ]}
        here={pipeline ? 'Edit' : 'New'}
      >
        <Tabs
          label="View"
          value={view ?? 'form'}
          options={[
            ['form', 'Form'],
            ['json', 'JSON'],
          ]}
          link={(value) => ({ to: '.', search: value === 'json' ? { ...search, view: value } : search, replace: true })}
        />
      </PageHead>
      {dirty && <DraftNotice state={editor} />}
      <div className={styles.columns}>
        <div className={styles.steps}>
          {view === 'json' ? (
            <Suspense fallback={<Skeleton rows={12} />}>
              <JsonView editor={editor} onFault={setJsonFault} />
            </Suspense>
          ) : (
            <StepSections editor={editor} gaps={gaps} />
          )}
          <ReviewSection editor={editor} stored={stored} blocked={fault ?? gap} onDone={leave} />
        </div>
        <Summary {...{ draft, sync, source, destination, gap, dirty }} />
      </div>
      {blocker.status === 'blocked' && <LeaveDialog onStay={blocker.reset} onLeave={blocker.proceed} />}
    </>
  )
}

function useEditor({ pipeline, stored, place, known }: Props): { editor: Editor; key: string } {
  const person = usePerson()
  const pipelineId = pipeline?.id ?? null
  const key = draftKey(person.id, person.organization.id, place)
  const state = useDraft(key, stored, pipeline?.updated_at ?? null, known)
  const [listed, setListed] = useState(pipeline ? bareSource(stored) : null)
  const source = sideOf(state.draft, 'source')
  const destination = sideOf(state.draft, 'destination')
  const abilities = useMemo(
    () => abilitiesOf(connectorOf(known, 'source', source), connectorOf(known, 'destination', destination)),
    [known, source, destination],
  )
  const sync = syncOf(state.draft.config, abilities, state.draft.many !== null)
  const suggestedName = pipeline ? '' : suggestName(state.draft, known)
  return { editor: { ...state, known, pipelineId, suggestedName, abilities, sync, listed, setListed }, key }
}

/** The source of a draft as the list of its streams is asked for. */
function bareSource(draft: Draft): string {
  const { stream: _, ...source } = sideOf(draft, 'source') ?? {}
  return JSON.stringify(source)
}

function suggestName(draft: Draft, known: Known): string {
  const stream = streamOf(draft)
  const destination = titleOf(known, 'destination', sideOf(draft, 'destination'))
  return stream === null || destination === null ? '' : `${stream} to ${destination}`.slice(0, 200)
}

/** Asks before unsaved changes are left, except when they have just been saved. */
function useLeaving(dirty: boolean, key: string) {
  const saved = useRef(false)
  const asks = () => dirty && !saved.current
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => asks() && current.pathname !== next.pathname,
    enableBeforeUnload: asks,
    withResolver: true,
  })
  const leave = useCallback(() => {
    saved.current = true
    sessionStorage.removeItem(key)
  }, [key])
  return { blocker, leave }
}

/** What the person should know about the draft: where it came from, and what is not in it. */
function DraftNotice({ state: { restored, outdated, discard } }: { state: DraftState }) {
  if (!restored && !outdated) return null
  return (
    <div className={styles.restored} role="status">
      <p>
        {restored && 'This is your draft from before the page was left. '}
        {restored?.dropped && 'Secrets, and settings that may be secret, are never kept in a draft: type them again. '}
        {outdated && 'The pipeline was changed since the draft was begun: look at the difference before you save.'}
      </p>
      <Button onClick={discard}>Discard draft</Button>
    </div>
  )
}
