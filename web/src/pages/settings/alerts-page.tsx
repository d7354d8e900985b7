import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { answer, api } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { NotAllowed } from '../../components/not-allowed.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Switch } from '../../components/switch.tsx'
import table from '../../components/table.module.css'
import { type Alert, type AlertBody, EVENT_WORDS, readAlert, sayChannel } from './alert-fields.ts'
import { AlertForm } from './alert-form.tsx'
import { alertsQuery } from './queries.ts'
import styles from './settings.module.css'
import { SettingsHead } from './settings-head.tsx'

export function AlertsPage() {
  const may = useMay('webhooks:write')
  const [creating, setCreating] = useState(false)
  return (
    <>
      <SettingsHead title="Alerts" lead="Tell people once when something goes wrong, and once when it is over.">
        {may && !creating && (
          <Button look="primary" onClick={() => setCreating(true)}>
            Create an alert
          </Button>
        )}
      </SettingsHead>
      {creating && <CreateAlert onCancel={() => setCreating(false)} />}
      {may ? <Alerts empty={!creating} /> : <NotAllowed permission="webhooks:write" what="Managing alerts" />}
    </>
  )
}

function CreateAlert({ onCancel }: { onCancel(): void }) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const create = useMutation({
    mutationFn: (body: AlertBody) => answer(api.POST('/api/alerts', { body })),
    onSuccess: async ({ id }) => {
      void queries.invalidateQueries({ queryKey: ['alerts'] })
      // Where it can be tested.
      await navigate({ to: '/settings/alerts/$id', params: { id } })
    },
  })
  return (
    <AlertForm
      start={readAlert(null)}
      action="Create alert"
      busy={create.isPending}
      error={create.error}
      onSave={(body) => create.mutate(body)}
    >
      <Button onClick={onCancel}>Cancel</Button>
    </AlertForm>
  )
}

function Alerts({ empty }: { empty: boolean }) {
  const alerts = useQuery(alertsQuery)
  if (alerts.isPending) return <Skeleton rows={3} />
  if (!alerts.data) return <ErrorNotice error={alerts.error} onRetry={alerts.refetch} />
  if (alerts.data.length === 0)
    return (
      empty && <Empty title="No alert yet">A chat or a mailbox can be told when a pipeline fails or is late.</Empty>
    )
  return (
    <table className={table.table}>
      <thead>
        <tr>
          <th className={table.fit}>State</th>
          <th>Name</th>
          <th className={table.wide}>When</th>
          <th className={table.wide}>To</th>
          <th className={`${table.fit} ${table.end}`}>Enabled</th>
        </tr>
      </thead>
      <tbody>
        {alerts.data.map((alert) => (
          <AlertRow key={alert.id} alert={alert} />
        ))}
      </tbody>
    </table>
  )
}

function AlertRow({ alert }: { alert: Alert }) {
  const { id, name, on, channel } = alert
  const words = on.map((event) => EVENT_WORDS[event]).join(', ')
  const to = sayChannel(channel)
  return (
    <tr>
      <td className={table.fit}>
        <AlertState alert={alert} />
      </td>
      <td title={name}>
        <Link to="/settings/alerts/$id" params={{ id }}>
          {name}
        </Link>
      </td>
      <td className={`${table.wide} soft`} title={words}>
        {words}
      </td>
      <td className={`${table.wide} soft`} title={to}>
        {to}
      </td>
      <td className={`${table.fit} ${table.end}`}>
        <AlertSwitch alert={alert} />
      </td>
    </tr>
  )
}

export function AlertState({ alert: { enabled, open_incidents } }: { alert: Alert }) {
  if (!enabled) return <span className="faint">– off</span>
  if (open_incidents > 0)
    return (
      <span className={styles.bad}>
        <span aria-hidden="true">✕</span> {open_incidents} open
      </span>
    )
  return (
    <span className={styles.good}>
      <span aria-hidden="true">●</span> none open
    </span>
  )
}

export function AlertSwitch({ alert, shown = false }: { alert: Alert; shown?: boolean }) {
  const queries = useQueryClient()
  const change = useMutation({
    mutationFn: (enabled: boolean) =>
      api.PUT('/api/alerts/{id}', { params: { path: { id: alert.id } }, body: { enabled } }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['alerts'] }),
  })
  return (
    <Switch
      label={shown ? 'Enabled' : `${alert.name} is enabled`}
      shown={shown}
      checked={change.isPending ? change.variables : alert.enabled}
      onChange={(enabled) => change.mutate(enabled)}
      title={change.error?.message}
    />
  )
}
