/** The last step: a look at what the pipeline would do, the difference from what is stored, and saving. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useRef } from 'react'
import { answer, api, type Schemas } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { problemsOf } from '../../api/problems.ts'
import { Button } from '../../components/button.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import { BulkPlan } from './bulk-plan.tsx'
import { Changes } from './changes.tsx'
import { changedFields, type Draft, toBody } from './draft.ts'
import type { Editor } from './editor.ts'
import { Preview } from './preview.tsx'
import styles from './review-section.module.css'
import { Section } from './section.tsx'
import { TITLES } from './steps.ts'

interface Props {
  editor: Editor
  stored: Draft
  /** Why it cannot be saved yet. */
  blocked: string | null
  /** What was typed is saved and need not be asked for. */
  onDone(): void
}

export function ReviewSection({ editor, stored, blocked, onDone }: Props) {
  const { draft, pipelineId } = editor
  return (
    <Section
      id="review"
      number={6}
      title={TITLES.review}
      brief=""
      state={blocked ? 'waiting' : 'unfinished'}
      open
      onToggle={null}
    >
      {draft.many ? <BulkPlan editor={editor} /> : <Preview editor={editor} />}
      {pipelineId !== null && <Changes editor={editor} stored={stored} />}
      <Save editor={editor} stored={stored} onDone={onDone} />
    </Section>
  )
}

function Save({ editor, stored, onDone }: Omit<Props, 'blocked'>) {
  const { draft, dirty, pipelineId, setProblems } = editor
  const mayRun = useMay('pipelines:run', draft.domain_id)
  const navigate = useNavigate()
  const queries = useQueryClient()
  // If only the run could not be started, a second attempt must not create the pipeline again.
  const created = useRef<string | null>(null)
  const save = useMutation({
    mutationFn: (run: boolean) => send(editor, stored, { run, created }),
    onSuccess: async ({ pipeline, run }) => {
      onDone()
      await queries.invalidateQueries({ queryKey: ['pipelines'] })
      if (pipeline) await queries.invalidateQueries({ queryKey: ['pipeline', pipeline] })
      if (run) await navigate({ to: '/runs/$id', params: { id: run } })
      else if (pipeline) await navigate({ to: '/pipelines/$id', params: { id: pipeline } })
      else await navigate({ to: '/pipelines' })
    },
    onError: (error) => setProblems(problemsOf(error, '').byPath),
  })
  const count = draft.many?.streams.length
  const label = pipelineId !== null ? 'Save changes' : count ? `Create ${count} pipelines` : 'Create pipeline'
  return (
    <div className={styles.save}>
      <ErrorNotice error={save.error} />
      <div className={styles.actions}>
        <Button look="primary" busy={save.isPending} disabled={!dirty} onClick={() => save.mutate(false)}>
          {label}
        </Button>
        {pipelineId === null && !draft.many && mayRun && (
          <Button busy={save.isPending} onClick={() => save.mutate(true)}>
            Create and run now
          </Button>
        )}
        {pipelineId !== null && dirty && <Button onClick={editor.discard}>Discard changes</Button>}
        {!dirty && <span className="faint">Nothing is changed.</span>}
      </div>
    </div>
  )
}

interface Saved {
  /** Null: many were created. */
  pipeline: string | null
  run: string | null
}

interface Sending {
  run: boolean
  /** The pipeline that this editor has created. */
  created: { current: string | null }
}

/** The server checks every field, so what the editor holds is sent as it is. */
async function send({ draft, pipelineId, suggestedName }: Editor, stored: Draft, sending: Sending): Promise<Saved> {
  if (pipelineId !== null) {
    const body = changedFields(stored, draft) as Schemas['UpdatePipeline']
    await answer(api.PUT('/api/pipelines/{id}', { params: { path: { id: pipelineId } }, body }))
    return { pipeline: pipelineId, run: null }
  }
  const body = toBody(draft, suggestedName)
  if (draft.many) {
    await answer(api.POST('/api/pipelines/bulk', { body: body as unknown as Schemas['BulkPipelines'] }))
    return { pipeline: null, run: null }
  }
  const { run, created } = sending
  const whole = body as unknown as Schemas['CreatePipeline']
  if (created.current === null) created.current = (await answer(api.POST('/api/pipelines', { body: whole }))).id
  else await answer(api.PUT('/api/pipelines/{id}', { params: { path: { id: created.current } }, body: whole }))
  const id = created.current
  if (!run) return { pipeline: id, run: null }
  const started = await answer(api.POST('/api/pipelines/{id}/run', { params: { path: { id } } }))
  return { pipeline: id, run: started.id }
}
