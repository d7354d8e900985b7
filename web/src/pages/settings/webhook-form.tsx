import { type FormEvent, type ReactNode, useState } from 'react'
import type { Schemas } from '../../api/client.ts'
import { problemsOf } from '../../api/problems.ts'
import { Button } from '../../components/button.tsx'
import { Field } from '../../components/field.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import styles from './settings.module.css'

export type WebhookEvent = Schemas['CreateWebhook']['events'][number]

export const EVENT_WORDS: Record<WebhookEvent, string> = {
  'run.failed': 'A run failed',
  'run.succeeded': 'A run succeeded',
  'run.recovered': 'A run succeeded after one that failed',
}

export interface WebhookFields {
  url: string
  events: WebhookEvent[]
  description: string | null
}

interface Props {
  start: WebhookFields
  action: string
  busy: boolean
  error: unknown
  onSave(fields: WebhookFields): void
  children?: ReactNode
}

export function WebhookForm({ start, action, busy, error, onSave, children }: Props) {
  const [url, setUrl] = useState(start.url)
  const [events, setEvents] = useState(start.events)
  const [description, setDescription] = useState(start.description ?? '')
  const { byPath } = problemsOf(error, '')
  function submit(event: FormEvent) {
    event.preventDefault()
    onSave({ url, events, description: description.trim() || null })
  }
  return (
    <form className={styles.panel} onSubmit={submit} aria-label={action}>
      <Field
        label="URL"
        type="url"
        required
        maxLength={2000}
        placeholder="https://example.com/hooks/sluice"
        value={url}
        problem={byPath.url}
        hint="Receives a POST with JSON, signed with the secret of the webhook."
        onChange={(event) => setUrl(event.target.value)}
      />
      <fieldset className={styles.checks}>
        <legend className={styles.legend}>Events</legend>
        {(Object.keys(EVENT_WORDS) as WebhookEvent[]).map((name) => (
          <label key={name} className={styles.check} title={name}>
            <input
              type="checkbox"
              checked={events.includes(name)}
              onChange={(event) =>
                setEvents(event.target.checked ? [...events, name] : events.filter((other) => other !== name))
              }
            />
            {EVENT_WORDS[name]}
          </label>
        ))}
      </fieldset>
      <Field
        label="Description"
        maxLength={1000}
        value={description}
        onChange={(event) => setDescription(event.target.value)}
      />
      {Object.keys(byPath).length === 0 && <ErrorNotice error={error} />}
      <div className={styles.actions}>
        <Button look="primary" type="submit" busy={busy} disabled={events.length === 0}>
          {action}
        </Button>
        {children}
      </div>
    </form>
  )
}
