/** One webhook: what it sends where, its secret, and what became of each delivery. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { answer, api, type Schemas } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { Menu } from '../../components/menu.tsx'
import { NotAllowed } from '../../components/not-allowed.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Deliveries } from './deliveries.tsx'
import { webhookQuery } from './queries.ts'
import styles from './settings.module.css'
import { SettingsHead } from './settings-head.tsx'
import { type WebhookEvent, type WebhookFields, WebhookForm } from './webhook-form.tsx'
import { EnabledSwitch, NewSecret } from './webhooks-page.tsx'

export function WebhookPage() {
  const may = useMay('webhooks:write')
  if (may) return <LoadedWebhook />
  return (
    <>
      <SettingsHead title="Webhook" parent={['Webhooks', { to: '/settings/webhooks' }]} />
      <NotAllowed permission="webhooks:write" what="Managing webhooks" />
    </>
  )
}

function LoadedWebhook() {
  const { id } = useParams({ from: '/frame/settings/webhooks/$id' })
  const webhook = useQuery(webhookQuery(id))
  if (webhook.isPending) return <Skeleton rows={8} />
  if (!webhook.data) return <ErrorNotice error={webhook.error} onRetry={webhook.refetch} />
  return <WebhookDetails webhook={webhook.data} />
}

function WebhookDetails({ webhook }: { webhook: Schemas['Webhook'] }) {
  const { id, url, events, description, disabled_reason, updated_at } = webhook
  const params = { path: { id } }
  const [asking, setAsking] = useState<'secret' | 'delete' | null>(null)
  const [secret, setSecret] = useState<string | null>(null)
  const queries = useQueryClient()
  const refresh = () => queries.invalidateQueries({ queryKey: ['webhooks'] })
  const save = useMutation({
    mutationFn: (body: WebhookFields) => answer(api.PUT('/api/webhooks/{id}', { params, body })),
    onSuccess: refresh,
  })
  const test = useMutation({
    mutationFn: () => answer(api.POST('/api/webhooks/{id}/test', { params })),
    onSuccess: refresh,
  })
  return (
    <>
      <SettingsHead
        title={url}
        parent={['Webhooks', { to: '/settings/webhooks' }]}
        lead={disabled_reason && <span className={styles.bad}>Disabled: {disabled_reason}</span>}
      >
        <EnabledSwitch webhook={webhook} shown />
        <Button busy={test.isPending} onClick={() => test.mutate()}>
          Send a test
        </Button>
        <Menu
          label="More actions"
          items={[
            { label: 'Replace the secret…', onSelect: () => setAsking('secret') },
            { label: 'Delete…', onSelect: () => setAsking('delete'), danger: true },
          ]}
        />
      </SettingsHead>
      <ErrorNotice error={test.error} />
      {secret && <NewSecret secret={secret} onDone={() => setSecret(null)} />}
      <WebhookForm
        key={updated_at}
        start={{ url, events: events as WebhookEvent[], description }}
        action="Save changes"
        busy={save.isPending}
        error={save.error}
        onSave={(fields) => save.mutate(fields)}
      />
      <Deliveries id={id} />
      {asking === 'secret' && <ReplaceSecret id={id} onDone={setSecret} onClose={() => setAsking(null)} />}
      {asking === 'delete' && <DeleteWebhook id={id} url={url} onClose={() => setAsking(null)} />}
    </>
  )
}

/** As the server would make one. It never tells a secret again, so a new one is made here. */
function makeSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(32))
  return btoa(String.fromCharCode(...bytes)).replace(/[+/=]/g, (sign) => ({ '+': '-', '/': '_' })[sign] ?? '')
}

function ReplaceSecret({ id, onDone, onClose }: { id: string; onDone(secret: string): void; onClose(): void }) {
  const replace = useMutation({
    mutationFn: async () => {
      const secret = makeSecret()
      await api.PUT('/api/webhooks/{id}', { params: { path: { id } }, body: { secret } })
      return secret
    },
    onSuccess: (secret) => {
      onDone(secret)
      onClose()
    },
  })
  return (
    <Confirm
      title="Replace the secret?"
      action="Replace the secret"
      onConfirm={() => replace.mutate()}
      onClose={onClose}
      busy={replace.isPending}
      error={replace.error}
    >
      <p>The new one signs from the next attempt on. A receiver that still checks the old one refuses what is sent.</p>
    </Confirm>
  )
}

function DeleteWebhook({ id, url, onClose }: { id: string; url: string; onClose(): void }) {
  const navigate = useNavigate()
  const queries = useQueryClient()
  const remove = useMutation({
    mutationFn: () => api.DELETE('/api/webhooks/{id}', { params: { path: { id } } }),
    onSuccess: async () => {
      await navigate({ to: '/settings/webhooks' })
      await queries.invalidateQueries({ queryKey: ['webhooks'], exact: true })
    },
  })
  return (
    <Confirm
      title="Delete the webhook?"
      action="Delete the webhook"
      onConfirm={() => remove.mutate()}
      onClose={onClose}
      busy={remove.isPending}
      error={remove.error}
    >
      <p>Nothing is sent to {url} any more, and the list of its deliveries is deleted too.</p>
    </Confirm>
  )
}
