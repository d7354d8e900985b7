import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type FormEvent, lazy, Suspense, useState } from 'react'
import { answer, api, type Schemas } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { Field } from '../../components/field.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import { forgetPipelines } from './change-pipelines.ts'
import styles from './pipeline-page.module.css'
import type { Pipeline } from './pipeline-page.tsx'
import { stateQuery } from './queries.ts'

const CodeEditor = lazy(() => import('../../components/code-editor/code-editor.tsx'))

/** Where the next incremental run continues, and reading a part again. */
export function StateTab({ pipeline }: { pipeline: Pipeline }) {
  const state = useQuery(stateQuery(pipeline.id))
  const { mode, write } = (pipeline.config as Schemas['PipelineConfig']).sync ?? {}
  if (state.error) return <ErrorNotice error={state.error} onRetry={state.refetch} />
  if (!state.data) return <Skeleton rows={8} />
  if (mode !== 'incremental')
    return (
      <p className="soft">
        This pipeline reads the whole stream in each run, so it has no state. An incremental one continues from where
        the last run ended.
      </p>
    )
  return (
    <div className={styles.columns}>
      <StateForm key={state.data.updated_at} pipeline={pipeline} state={state.data} />
      <Backfill pipeline={pipeline} upserts={write === undefined || write === 'upsert'} />
    </div>
  )
}

/** What a person looks for is one value; lists of thousands that a source keeps beside it come last. */
function shortFirst(cursor: unknown): unknown {
  if (typeof cursor !== 'object' || cursor === null || Array.isArray(cursor)) return cursor
  const isLong = (value: unknown) => typeof value === 'object' && value !== null
  return Object.fromEntries(
    Object.entries(cursor).toSorted(([, one], [, other]) => Number(isLong(one)) - Number(isLong(other))),
  )
}

function StateForm({ pipeline, state }: { pipeline: Pipeline; state: Schemas['PipelineState'] }) {
  const stored = state.cursor === null ? '' : JSON.stringify(shortFirst(state.cursor), null, 2)
  const [text, setText] = useState(stored)
  const [resetting, setResetting] = useState(false)
  const may = useMay('pipelines:write', pipeline.domain_id)
  const queries = useQueryClient()
  const path = { id: pipeline.id }
  const done = () => queries.invalidateQueries({ queryKey: stateQuery(pipeline.id).queryKey })
  const save = useMutation({
    mutationFn: async () => {
      const body = { cursor: readJson(text) } as Schemas['WritePipelineState']
      return answer(api.PUT('/api/pipelines/{id}/state', { params: { path }, body }))
    },
    onSuccess: done,
  })
  const reset = useMutation({
    mutationFn: () => api.DELETE('/api/pipelines/{id}/state', { params: { path } }),
    onSuccess: () => {
      setResetting(false)
      setText('')
      return done()
    },
  })
  return (
    <section className={styles.part} aria-labelledby="state">
      <h2 id="state">State</h2>
      <p className="soft">
        {stored === ''
          ? 'There is none: the next run reads everything from the beginning.'
          : 'The next run continues from this cursor.'}{' '}
        {state.updated_at && (
          <>
            Changed <Time at={state.updated_at} />.
          </>
        )}
      </p>
      <div className={styles.editor}>
        <Suspense fallback={<Skeleton rows={4} />}>
          <CodeEditor value={text} onChange={setText} language="json" label="State as JSON" readOnly={!may} />
        </Suspense>
      </div>
      <ErrorNotice error={save.error} />
      {may ? (
        <div className={styles.line}>
          <Button
            look="primary"
            busy={save.isPending}
            disabled={text.trim() === stored || text.trim() === ''}
            onClick={() => save.mutate()}
          >
            Save state
          </Button>
          <Button disabled={stored === ''} onClick={() => setResetting(true)}>
            Reset state
          </Button>
        </div>
      ) : (
        <p className="faint">Your role may not change the state.</p>
      )}
      {resetting && (
        <Confirm
          title="Reset the state"
          action="Reset state"
          busy={reset.isPending}
          error={reset.error}
          onClose={() => setResetting(false)}
          onConfirm={() => reset.mutate()}
        >
          <p>
            The next run reads the whole stream again. The state as it is now is lost; copy it first if you may need it.
          </p>
        </Confirm>
      )}
    </section>
  )
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`This is not JSON: ${(error as Error).message}`)
  }
}

function Backfill({ pipeline, upserts }: { pipeline: Pipeline; upserts: boolean }) {
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const may = useMay('pipelines:run', pipeline.domain_id)
  const queries = useQueryClient()
  const start = useMutation({
    mutationFn: () =>
      answer(
        api.POST('/api/pipelines/{id}/backfill', { params: { path: { id: pipeline.id } }, body: rangeOf(from, to) }),
      ),
    onSuccess: () => forgetPipelines(queries),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    start.mutate()
  }
  const field = (pipeline.config as Schemas['PipelineConfig']).sync?.cursor_field ?? 'the cursor'
  return (
    <section className={styles.part} aria-labelledby="backfill">
      <h2 id="backfill">Read a range again</h2>
      <p className="soft">
        {upserts
          ? `A back-fill reads the records whose value of ${field} is in a range, and upserts them. The state stays as it is.`
          : 'A back-fill reads records again, so it needs a pipeline that upserts by a primary key. This one appends, which would load them twice.'}
      </p>
      {upserts && may && (
        <form className={styles.part} onSubmit={submit}>
          <div className={styles.pair}>
            <Field
              label="From"
              required
              placeholder="2024-01-01"
              hint="Included"
              value={from}
              onChange={(event) => setFrom(event.target.value)}
            />
            <Field
              label="To"
              required
              placeholder="2024-02-01"
              hint="Not included"
              value={to}
              onChange={(event) => setTo(event.target.value)}
            />
          </div>
          <ErrorNotice error={start.error} />
          <div className={styles.line}>
            <Button type="submit" busy={start.isPending}>
              Start back-fill
            </Button>
            <span role="status">
              {start.data && (
                <Link to="/runs/$id" params={{ id: start.data.id }}>
                  Started. Open the run
                </Link>
              )}
            </span>
          </div>
        </form>
      )}
      {upserts && !may && <p className="faint">Your role may not run this pipeline.</p>}
    </section>
  )
}

const NUMBER = /^-?\d{1,15}(\.\d{1,15})?$/

/** Numbers as numbers, where both are: an API that has numbers does not compare them with texts. */
function rangeOf(from: string, to: string): Schemas['Backfill'] {
  const [start, end] = [from.trim(), to.trim()]
  return NUMBER.test(start) && NUMBER.test(end) ? { from: Number(start), to: Number(end) } : { from: start, to: end }
}
