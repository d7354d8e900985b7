import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { answer, api } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { catalogueQuery, savedConnectorsQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { ConfirmByTyping } from '../../components/confirm-by-typing.tsx'
import { Field, SelectField } from '../../components/field.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Switch } from '../../components/switch.tsx'
import { type Known, schemasOf } from '../editor/connectors.ts'
import { domainsQuery, nextTimesQuery } from '../editor/queries.ts'
import { saySchedule } from '../editor/schedule-words.ts'
import { doubtfulPaths, maskSecrets } from '../editor/secrets.ts'
import { forgetPipelines } from './change-pipelines.ts'
import { ConfigView } from './config-view.tsx'
import styles from './pipeline-page.module.css'
import type { Pipeline } from './pipeline-page.tsx'

export function SettingsTab({ pipeline }: { pipeline: Pipeline }) {
  const mayWrite = useMay('pipelines:write', pipeline.domain_id)
  return (
    <div className={styles.columns}>
      <div>
        <SettingsForm key={pipeline.updated_at} pipeline={pipeline} mayWrite={mayWrite} />
        {mayWrite && <CopyAndDelete pipeline={pipeline} />}
      </div>
      <Configuration pipeline={pipeline} mayWrite={mayWrite} />
    </div>
  )
}

function SettingsForm({ pipeline, mayWrite }: { pipeline: Pipeline; mayWrite: boolean }) {
  const [name, setName] = useState(pipeline.name)
  const [domainId, setDomainId] = useState(pipeline.domain_id ?? '')
  const [schedule, setSchedule] = useState(pipeline.schedule ?? '')
  const [timezone, setTimezone] = useState(pipeline.timezone ?? '')
  const [enabled, setEnabled] = useState(pipeline.enabled)
  const domains = useQuery(domainsQuery)
  const queries = useQueryClient()
  const save = useMutation({
    mutationFn: () => {
      const body = {
        name,
        domain_id: domainId || null,
        schedule: schedule.trim() || null,
        timezone: timezone || null,
        enabled,
      }
      return answer(api.PUT('/api/pipelines/{id}', { params: { path: { id: pipeline.id } }, body }))
    },
    onSuccess: () => forgetPipelines(queries),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    save.mutate()
  }
  return (
    <form className={`${styles.part} ${styles.narrow}`} onSubmit={submit} aria-label="Settings">
      <fieldset className={styles.part} disabled={!mayWrite}>
        <Field label="Name" required maxLength={200} value={name} onChange={(event) => setName(event.target.value)} />
        <SelectField label="Domain" value={domainId} onChange={(event) => setDomainId(event.target.value)}>
          <option value="">No domain</option>
          {domains.data?.map(({ id, name: domain }) => (
            <option key={id} value={id}>
              {domain}
            </option>
          ))}
        </SelectField>
        <div className={styles.pair}>
          <Field
            label="Schedule as cron"
            placeholder="0 * * * *"
            maxLength={200}
            spellCheck={false}
            hint="Minute hour day month weekday"
            value={schedule}
            onChange={(event) => setSchedule(event.target.value)}
          />
          <SelectField label="Time zone" value={timezone} onChange={(event) => setTimezone(event.target.value)}>
            <option value="">UTC</option>
            {ZONES.map((zone) => (
              <option key={zone} value={zone}>
                {zone}
              </option>
            ))}
          </SelectField>
        </div>
        <ScheduleWords schedule={schedule.trim()} timezone={timezone || null} />
        <Switch
          label="Enabled: the schedule runs it"
          shown
          checked={enabled}
          disabled={!mayWrite}
          onChange={setEnabled}
        />
        <ErrorNotice error={save.error} />
        {mayWrite ? (
          <div className={styles.line}>
            <Button look="primary" type="submit" busy={save.isPending}>
              Save settings
            </Button>
            {save.data?.notice && <span role="status">{save.data.notice}</span>}
          </div>
        ) : (
          <p className="faint">Your role may not change this pipeline.</p>
        )}
      </fieldset>
    </form>
  )
}

const ZONES = Intl.supportedValuesOf('timeZone')

/** What the schedule means, and when it fires next; the server is asked, because its cron decides. */
function ScheduleWords({ schedule, timezone }: { schedule: string; timezone: string | null }) {
  const preview = useQuery({ ...nextTimesQuery(schedule, timezone), enabled: schedule !== '' })
  if (schedule === '') return <p className="soft">It runs when somebody starts it.</p>
  if (preview.error) return <p className="soft">{preview.error.message}</p>
  const format = new Intl.DateTimeFormat(undefined, {
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
    timeZone: timezone ?? 'UTC',
  })
  return (
    <p className="soft">
      {saySchedule(schedule)}.{' '}
      {preview.data && (
        <>
          Next:{' '}
          {preview.data.next_times.map((time, at) => (
            <span key={time}>
              {at > 0 && ', '}
              {format.format(new Date(time))}
            </span>
          ))}
        </>
      )}
    </p>
  )
}

function Configuration({ pipeline, mayWrite }: { pipeline: Pipeline; mayWrite: boolean }) {
  const known = useKnown()
  const config = pipeline.config as Record<string, unknown>
  return (
    <section className={styles.part} aria-labelledby="configuration">
      <div className={styles.line}>
        <h2 id="configuration">Configuration</h2>
        {mayWrite && (
          <Link to="/pipelines/$id/edit" params={{ id: pipeline.id }}>
            Edit in the editor
          </Link>
        )}
      </div>
      {known === null ? (
        <Skeleton rows={8} />
      ) : (
        <>
          <dl className={styles.ends}>
            {(['source', 'destination'] as const).map((side) => (
              <SavedSide key={side} known={known} side={side} config={config} />
            ))}
          </dl>
          {/* Those who may change it are sent its secrets, and nobody needs to see them here. */}
          <ConfigView value={withoutSavedIds(maskSecrets(config, doubtfulPaths(schemasOf(known, config))))} />
        </>
      )}
    </section>
  )
}

/** The saved connections stand above by their names. */
function withoutSavedIds(config: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(config).map(([name, value]) => {
      if (typeof value !== 'object' || value === null || !('saved_connector_id' in value)) return [name, value]
      const { saved_connector_id: _, ...rest } = value
      return [name, Object.keys(rest).length > 0 ? rest : undefined]
    }),
  )
}

/** Null while it is being loaded: without the schemas nothing tells what is secret. */
function useKnown(): Known | null {
  const catalogue = [useQuery(catalogueQuery('source')).data, useQuery(catalogueQuery('destination')).data]
  const saved = [useQuery(savedConnectorsQuery('source')).data, useQuery(savedConnectorsQuery('destination')).data]
  if (!catalogue[0] || !catalogue[1] || !saved[0] || !saved[1]) return null
  return {
    catalogue: { source: catalogue[0], destination: catalogue[1] },
    saved: { source: saved[0], destination: saved[1] },
  }
}

interface SavedSideProps {
  known: Known
  side: 'source' | 'destination'
  config: Record<string, unknown>
}

function SavedSide({ known, side, config }: SavedSideProps) {
  const { saved_connector_id: id } = config[side] as { saved_connector_id?: string }
  if (id === undefined) return null
  const saved = known.saved[side].find((candidate) => candidate.id === id)
  return (
    <div>
      <dt>Saved {side}</dt>
      <dd>
        {saved ? (
          <Link to="/connections/$kind/$id" params={{ kind: side, id }}>
            {saved.name}
          </Link>
        ) : (
          'It was deleted; choose another one in the editor.'
        )}
      </dd>
    </div>
  )
}

function CopyAndDelete({ pipeline: { id, name } }: { pipeline: Pipeline }) {
  const [deleting, setDeleting] = useState(false)
  const navigate = useNavigate()
  const queries = useQueryClient()
  const path = { id }
  const copy = useMutation({
    mutationFn: () => answer(api.POST('/api/pipelines/{id}/copy', { params: { path }, body: {} })),
    onSuccess: async (made) => {
      void queries.invalidateQueries({ queryKey: ['pipelines'] })
      await navigate({ to: '/pipelines/$id/$tab', params: { id: made.id, tab: 'settings' } })
    },
  })
  const remove = useMutation({
    mutationFn: () => api.DELETE('/api/pipelines/{id}', { params: { path } }),
    onSuccess: async () => {
      await navigate({ to: '/pipelines' })
      queries.removeQueries({ queryKey: ['pipeline', id] })
      forgetPipelines(queries)
    },
  })
  return (
    <section className={styles.part} aria-labelledby="more">
      <h2 id="more">Copy or delete</h2>
      <ErrorNotice error={copy.error} />
      <div className={styles.line}>
        <Button busy={copy.isPending} onClick={() => copy.mutate()}>
          Copy pipeline
        </Button>
        <Button look="danger" onClick={() => setDeleting(true)}>
          Delete pipeline
        </Button>
      </div>
      {deleting && (
        <ConfirmByTyping
          title="Delete this pipeline"
          word={name}
          action="Delete pipeline"
          busy={remove.isPending}
          error={remove.error}
          onClose={() => setDeleting(false)}
          onConfirm={() => remove.mutate()}
        >
          <p>
            A run that is going on is cancelled. All runs, logs and outputs go too, and nothing brings them back. What
            is in the destination stays.
          </p>
        </ConfirmByTyping>
      )}
    </section>
  )
}
