/** One alert: what it watches, whom it tells, and what became of each message. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { answer, api } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { Menu } from '../../components/menu.tsx'
import { NotAllowed } from '../../components/not-allowed.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { type Alert, type AlertBody, readAlert } from './alert-fields.ts'
import { AlertForm } from './alert-form.tsx'
import { AlertState, AlertSwitch } from './alerts-page.tsx'
import { DeliveryTable } from './delivery-table.tsx'
import { alertDeliveriesQuery, alertQuery } from './queries.ts'
import { SettingsHead } from './settings-head.tsx'

const PARENT = ['Alerts', { to: '/settings/alerts' }] as const

export function AlertPage() {
  const may = useMay('webhooks:write')
  if (may) return <LoadedAlert />
  return (
    <>
      <SettingsHead title="Alert" parent={[...PARENT]} />
      <NotAllowed permission="webhooks:write" what="Managing alerts" />
    </>
  )
}

function LoadedAlert() {
  const { id } = useParams({ from: '/frame/settings/alerts/$id' })
  const alert = useQuery(alertQuery(id))
  if (alert.isPending) return <Skeleton rows={8} />
  if (!alert.data) return <ErrorNotice error={alert.error} onRetry={alert.refetch} />
  return <AlertDetails alert={alert.data} />
}

function AlertDetails({ alert }: { alert: Alert }) {
  const { id, name, updated_at } = alert
  const params = { path: { id } }
  const [deleting, setDeleting] = useState(false)
  const queries = useQueryClient()
  const refresh = () => queries.invalidateQueries({ queryKey: ['alerts'] })
  const save = useMutation({
    mutationFn: (body: AlertBody) => answer(api.PUT('/api/alerts/{id}', { params, body })),
    onSuccess: refresh,
  })
  const test = useMutation({
    mutationFn: () => answer(api.POST('/api/alerts/{id}/test', { params })),
    onSuccess: refresh,
  })
  return (
    <>
      <SettingsHead title={name} parent={[...PARENT]} lead={<AlertState alert={alert} />}>
        <AlertSwitch alert={alert} shown />
        <Button busy={test.isPending} onClick={() => test.mutate()}>
          Send a test
        </Button>
        <Menu label="More actions" items={[{ label: 'Delete…', onSelect: () => setDeleting(true), danger: true }]} />
      </SettingsHead>
      <ErrorNotice error={test.error} />
      <AlertForm
        key={updated_at}
        start={readAlert(alert)}
        action="Save changes"
        busy={save.isPending}
        error={save.error}
        onSave={(body) => save.mutate(body)}
      />
      <AlertDeliveries id={id} />
      {deleting && <DeleteAlert id={id} name={name} onClose={() => setDeleting(false)} />}
    </>
  )
}

function AlertDeliveries({ id }: { id: string }) {
  const deliveries = useQuery(alertDeliveriesQuery(id))
  return (
    <section>
      <h2>Deliveries</h2>
      {deliveries.isPending && <Skeleton rows={4} />}
      <ErrorNotice error={deliveries.error} onRetry={deliveries.refetch} />
      {deliveries.data?.length === 0 && (
        <p className="faint">Nothing was sent yet. A test shows whether messages arrive.</p>
      )}
      {deliveries.data && deliveries.data.length > 0 && <DeliveryTable deliveries={deliveries.data} />}
    </section>
  )
}

function DeleteAlert({ id, name, onClose }: { id: string; name: string; onClose(): void }) {
  const navigate = useNavigate()
  const queries = useQueryClient()
  const remove = useMutation({
    mutationFn: () => api.DELETE('/api/alerts/{id}', { params: { path: { id } } }),
    onSuccess: async () => {
      await navigate({ to: '/settings/alerts' })
      await queries.invalidateQueries({ queryKey: ['alerts'], exact: true })
    },
  })
  return (
    <Confirm
      title="Delete the alert?"
      action="Delete the alert"
      onConfirm={() => remove.mutate()}
      onClose={onClose}
      busy={remove.isPending}
      error={remove.error}
    >
      <p>Nobody is told by {name} any more, and the list of what it has sent is deleted too.</p>
    </Confirm>
  )
}
