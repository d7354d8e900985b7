import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { answer, api, type Schemas } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { CopyText } from '../../components/copy-text.tsx'
import { NotAllowed } from '../../components/not-allowed.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Switch } from '../../components/switch.tsx'
import table from '../../components/table.module.css'
import { webhooksQuery } from './queries.ts'
import styles from './settings.module.css'
import { SettingsHead } from './settings-head.tsx'
import { EVENT_WORDS, type WebhookEvent, type WebhookFields, WebhookForm } from './webhook-form.tsx'

type Webhook = Schemas['Webhook']

export function WebhooksPage() {
  const may = useMay('webhooks:write')
  const [creating, setCreating] = useState(false)
  const [created, setCreated] = useState<Schemas['CreatedWebhook'] | null>(null)
  return (
    <>
      <SettingsHead title="Webhooks" lead="Tell another system when a run ends.">
        {may && !creating && (
          <Button look="primary" onClick={() => setCreating(true)}>
            Create a webhook
          </Button>
        )}
      </SettingsHead>
      {created && <NewSecret secret={created.secret} onDone={() => setCreated(null)} />}
      {creating && (
        <CreateWebhook
          onCancel={() => setCreating(false)}
          onCreated={(webhook) => {
            setCreated(webhook)
            setCreating(false)
          }}
        />
      )}
      {may ? <Webhooks empty={!creating} /> : <NotAllowed permission="webhooks:write" what="Managing webhooks" />}
    </>
  )
}

export function NewSecret({ secret, onDone }: { secret: string; onDone(): void }) {
  return (
    <section className={styles.once} aria-label="The secret of the webhook">
      <CopyText label="The secret that signs what is sent" text={secret} />
      <p className="soft">
        Copy it now: it cannot be shown again. The receiver compares the header <code>X-Sluice-Signature</code> with the
        HMAC-SHA256 of what it got.
      </p>
      <div>
        <Button onClick={onDone}>I have copied it</Button>
      </div>
    </section>
  )
}

interface CreateProps {
  onCreated(webhook: Schemas['CreatedWebhook']): void
  onCancel(): void
}

function CreateWebhook({ onCreated, onCancel }: CreateProps) {
  const queries = useQueryClient()
  const create = useMutation({
    mutationFn: (body: WebhookFields) => answer(api.POST('/api/webhooks', { body })),
    onSuccess: (webhook) => {
      void queries.invalidateQueries({ queryKey: ['webhooks'] })
      onCreated(webhook)
    },
  })
  return (
    <WebhookForm
      start={{ url: '', events: ['run.failed'], description: null }}
      action="Create webhook"
      busy={create.isPending}
      error={create.error}
      onSave={(fields) => create.mutate(fields)}
    >
      <Button onClick={onCancel}>Cancel</Button>
    </WebhookForm>
  )
}

function Webhooks({ empty }: { empty: boolean }) {
  const webhooks = useQuery(webhooksQuery)
  if (webhooks.isPending) return <Skeleton rows={3} />
  if (!webhooks.data) return <ErrorNotice error={webhooks.error} onRetry={webhooks.refetch} />
  if (webhooks.data.length === 0)
    return empty && <Empty title="No webhook yet">A chat or a pager can be told when a pipeline fails.</Empty>
  return (
    <table className={table.table}>
      <thead>
        <tr>
          <th>URL</th>
          <th className={table.wide}>Events</th>
          <th className={table.wide}>Description</th>
          <th className={`${table.fit} ${table.end}`}>Enabled</th>
        </tr>
      </thead>
      <tbody>
        {webhooks.data.map((webhook) => (
          <WebhookRow key={webhook.id} webhook={webhook} />
        ))}
      </tbody>
    </table>
  )
}

function WebhookRow({ webhook }: { webhook: Webhook }) {
  const { id, url, events, description, disabled_reason } = webhook
  const words = events.map((event) => EVENT_WORDS[event as WebhookEvent] ?? event).join(', ')
  return (
    <tr>
      <td title={url}>
        <Link to="/settings/webhooks/$id" params={{ id }}>
          {url}
        </Link>
        {disabled_reason && <span className={styles.bad}> · {disabled_reason}</span>}
      </td>
      <td className={`${table.wide} soft`} title={words}>
        {words}
      </td>
      <td className={`${table.wide} soft`} title={description ?? undefined}>
        {description}
      </td>
      <td className={`${table.fit} ${table.end}`}>
        <EnabledSwitch webhook={webhook} />
      </td>
    </tr>
  )
}

export function EnabledSwitch({ webhook, shown = false }: { webhook: Webhook; shown?: boolean }) {
  const queries = useQueryClient()
  const change = useMutation({
    mutationFn: (enabled: boolean) =>
      api.PUT('/api/webhooks/{id}', { params: { path: { id: webhook.id } }, body: { enabled } }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['webhooks'] }),
  })
  return (
    <Switch
      label={shown ? 'Enabled' : `${webhook.url} is enabled`}
      shown={shown}
      checked={change.isPending ? change.variables : webhook.enabled}
      onChange={(enabled) => change.mutate(enabled)}
      title={change.error?.message}
    />
  )
}
