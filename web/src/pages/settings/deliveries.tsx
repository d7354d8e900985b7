import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Fragment, useState } from 'react'
import { answer, api, type Schemas } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import table from '../../components/table.module.css'
import { deliveriesQuery } from './queries.ts'
import styles from './settings.module.css'

type Delivery = Schemas['WebhookDelivery']

export function Deliveries({ id }: { id: string }) {
  const deliveries = useQuery(deliveriesQuery(id))
  const queries = useQueryClient()
  const [open, setOpen] = useState<string | null>(null)
  const resend = useMutation({
    mutationFn: (delivery_id: string) =>
      answer(api.POST('/api/webhooks/{id}/deliveries/{delivery_id}/resend', { params: { path: { id, delivery_id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['webhooks', id, 'deliveries'] }),
  })
  return (
    <section>
      <h2>Deliveries</h2>
      {deliveries.isPending && <Skeleton rows={4} />}
      <ErrorNotice error={deliveries.error ?? resend.error} onRetry={deliveries.refetch} />
      {deliveries.data?.length === 0 && (
        <p className="faint">Nothing was sent yet. A test shows whether the receiver can be reached.</p>
      )}
      {deliveries.data && deliveries.data.length > 0 && (
        <table className={table.table}>
          <thead>
            <tr>
              <th className={table.fit}>State</th>
              <th className={table.fit}>Event</th>
              <th>Outcome</th>
              <th className={`${table.fit} ${table.wide}`}>Attempts</th>
              <th className={`${table.fit} ${table.wide}`}>Created</th>
              <th className={`${table.fit} ${table.end}`}>
                <span className="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {deliveries.data.map((delivery) => (
              <Fragment key={delivery.id}>
                <DeliveryRow
                  delivery={delivery}
                  open={open === delivery.id}
                  onToggle={() => setOpen(open === delivery.id ? null : delivery.id)}
                  busy={resend.isPending}
                  onResend={() => resend.mutate(delivery.id)}
                />
                {open === delivery.id && (
                  <tr>
                    <td colSpan={6} className={styles.sent}>
                      <p className={styles.outcome}>{sayOutcome(delivery)}</p>
                      <pre className={styles.raw}>{JSON.stringify(delivery.payload, null, 2)}</pre>
                    </td>
                  </tr>
                )}
              </Fragment>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

const MARKS = { pending: '○', delivered: '●', failed: '✕' } as const

interface RowProps {
  delivery: Delivery
  open: boolean
  onToggle(): void
  busy: boolean
  onResend(): void
}

function DeliveryRow({ delivery, open, onToggle, busy, onResend }: RowProps) {
  const { id, status, event, attempts, created_at } = delivery
  const outcome = sayOutcome(delivery)
  return (
    <tr>
      <td className={table.fit}>
        <span className={status === 'failed' ? styles.bad : status === 'delivered' ? styles.good : undefined}>
          <span aria-hidden="true">{MARKS[status]}</span> {status}
        </span>
      </td>
      <td className={table.fit}>
        <code>{event}</code>
      </td>
      <td className="soft" title={outcome}>
        {outcome}
        {delivery.next_attempt_at && attempts > 0 && (
          <>
            {' '}
            · again <Time at={delivery.next_attempt_at} />
          </>
        )}
      </td>
      <td className={`${table.fit} ${table.wide} number`}>{attempts}</td>
      <td className={`${table.fit} ${table.wide} soft`}>
        <Time at={created_at} />
      </td>
      <td className={`${table.fit} ${table.end}`}>
        <Button look="quiet" aria-expanded={open} aria-label={`Payload of ${id}`} onClick={onToggle}>
          Payload
        </Button>
        {status !== 'pending' && (
          <Button look="quiet" disabled={busy} aria-label={`Send again: ${id}`} onClick={onResend}>
            Send again
          </Button>
        )}
      </td>
    </tr>
  )
}

function sayOutcome({ status, error, response_status, attempts }: Delivery): string {
  if (status === 'delivered') return `Answered with ${response_status}`
  if (error) return error
  return attempts === 0 ? 'About to be sent' : 'Not answered yet'
}
