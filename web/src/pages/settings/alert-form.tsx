import { useQuery } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, useState } from 'react'
import { problemsOf } from '../../api/problems.ts'
import { pipelineQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Field, SelectField, TextAreaField } from '../../components/field.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import { PipelinePicker } from '../../components/pipeline-picker.tsx'
import { type AlertBody, type AlertFields, EVENT_WORDS, EVENTS, writeAlert } from './alert-fields.ts'
import { Checks } from './checks.tsx'
import { domainsQuery } from './queries.ts'
import { QuietHoursFields } from './quiet-hours-fields.tsx'
import styles from './settings.module.css'

interface Props {
  start: AlertFields
  action: string
  busy: boolean
  error: unknown
  onSave(body: AlertBody): void
  children?: ReactNode
}

export interface PartProps {
  fields: AlertFields
  problems: Record<string, string>
  change(some: Partial<AlertFields>): void
}

export function AlertForm({ start, action, busy, error, onSave, children }: Props) {
  const [fields, setFields] = useState(start)
  const { byPath: problems, rest } = problemsOf(error, '')
  const part = { fields, problems, change: (some: Partial<AlertFields>) => setFields((now) => ({ ...now, ...some })) }
  // Without one it would watch every pipeline.
  const isWithoutPipeline = fields.scope === 'pipeline' && fields.pipeline_id === null
  function submit(event: FormEvent) {
    event.preventDefault()
    onSave(writeAlert(fields))
  }
  return (
    <form className={styles.panel} onSubmit={submit} aria-label={action}>
      <Field
        label="Name"
        required
        maxLength={200}
        value={fields.name}
        problem={problems.name}
        onChange={(event) => part.change({ name: event.target.value })}
      />
      <ScopeFields {...part} />
      <Checks
        legend="Tell when"
        words={EVENT_WORDS}
        all={EVENTS}
        chosen={fields.on}
        problem={problems.on}
        onChange={(on) => part.change({ on })}
      />
      <LimitFields {...part} />
      <ChannelFields {...part} />
      <QuietHoursFields {...part} />
      {(rest.length > 0 || Object.keys(problems).length === 0) && <ErrorNotice error={error} />}
      <div className={styles.actions}>
        <Button look="primary" type="submit" busy={busy} disabled={fields.on.length === 0 || isWithoutPipeline}>
          {action}
        </Button>
        {children}
      </div>
    </form>
  )
}

function ScopeFields({ fields, problems, change }: PartProps) {
  const { data: domains = [] } = useQuery(domainsQuery)
  const { pipeline_id } = fields
  const pipeline = useQuery({ ...pipelineQuery(pipeline_id ?? ''), enabled: pipeline_id !== null })
  return (
    <>
      <SelectField
        label="Watch"
        value={fields.scope}
        problem={problems.domain_id}
        onChange={(event) => change({ scope: event.target.value as AlertFields['scope'] })}
      >
        <option value="organization">Every pipeline</option>
        <option value="domain">The pipelines of a domain</option>
        <option value="pipeline">One pipeline</option>
      </SelectField>
      {fields.scope === 'domain' && (
        <SelectField
          label="Domain"
          required
          value={fields.domain_id}
          onChange={(event) => change({ domain_id: event.target.value })}
        >
          <option value="">Choose one</option>
          {domains.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </SelectField>
      )}
      {fields.scope === 'pipeline' && (
        <PipelinePicker
          label="Pipeline"
          placeholder="Which pipeline"
          chosen={pipeline_id === null ? null : (pipeline.data?.name ?? '…')}
          onChoose={(id) => change({ pipeline_id: id })}
        />
      )}
    </>
  )
}

function LimitFields({ fields, problems, change }: PartProps) {
  const number = (name: 'late_after_minutes' | 'min_records' | 'max_records') => ({
    type: 'number',
    min: name === 'late_after_minutes' ? 1 : 0,
    value: fields[name],
    problem: problems[name],
    onChange: (event: { target: { value: string } }) => change({ [name]: event.target.value }),
  })
  return (
    <>
      {fields.on.includes('late') && (
        <Field
          label="Minutes within which a run must succeed"
          required
          hint="Counted from the last success, for pipelines that are enabled and have a schedule."
          {...number('late_after_minutes')}
        />
      )}
      {fields.on.includes('row_count') && (
        <>
          <Field
            label="Fewest records of a run"
            hint="Leave one of the two empty for no limit."
            {...number('min_records')}
          />
          <Field label="Most records of a run" {...number('max_records')} />
        </>
      )}
    </>
  )
}

function ChannelFields({ fields, problems, change }: PartProps) {
  return (
    <>
      <SelectField
        label="Send to"
        value={fields.type}
        problem={problems['channel.type']}
        onChange={(event) => change({ type: event.target.value as AlertFields['type'] })}
      >
        <option value="slack">A chat (Slack, Mattermost)</option>
        <option value="email">E-mail</option>
      </SelectField>
      {fields.type === 'slack' ? (
        <Field
          label="URL"
          type="url"
          required
          maxLength={2000}
          placeholder="https://hooks.slack.com/services/…"
          value={fields.url}
          problem={problems['channel.url']}
          hint="An incoming webhook of the chat. Once saved it is not shown again."
          onChange={(event) => change({ url: event.target.value })}
        />
      ) : (
        <TextAreaField
          label="Recipients"
          required
          rows={3}
          value={fields.to}
          problem={Object.entries(problems).find(([path]) => path.startsWith('channel.to'))?.[1]}
          hint="Addresses of members of the organization, one per line."
          onChange={(event) => change({ to: event.target.value })}
        />
      )}
    </>
  )
}
