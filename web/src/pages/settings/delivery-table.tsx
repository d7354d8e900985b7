/** What was sent to a webhook or by an alert, and what became of it. */
import { Fragment, useState } from 'react'
import type { Schemas } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { Time } from '../../components/quantities.tsx'
import table from '../../components/table.module.css'
import styles from './settings.module.css'

type Delivery = Schemas['WebhookDelivery'] | Schemas['AlertDelivery']

interface Props {
  deliveries: Delivery[]
  busy?: boolean
  /** Absent: nothing can be sent again. */
  onResend?: (id: string) => void
}

export function DeliveryTable({ deliveries, busy = false, onResend }: Props) {
  const [open, setOpen] = useState<string | null>(null)
  return (
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
        {deliveries.map((delivery) => (
          <Fragment key={delivery.id}>
            <DeliveryRow
              delivery={delivery}
              open={open === delivery.id}
              onToggle={() => setOpen(open === delivery.id ? null : delivery.id)}
              busy={busy}
              onResend={onResend && (() => onResend(delivery.id))}
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
  )
}

const MARKS = { pending: '○', delivered: '●', failed: '✕' } as const

interface RowProps {
  delivery: Delivery
  open: boolean
  onToggle(): void
  busy: boolean
  onResend: (() => void) | undefined
}

function DeliveryRow({ delivery, open, onToggle, busy, onResend }: RowProps) {
  const { id, status, event, attempts, created_at } = delivery
  const outcome = sayOutcome(delivery)
  const isHeld = 'alert_id' in delivery && status === 'pending' && attempts === 0
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
        {delivery.next_attempt_at && (attempts > 0 || isHeld) && (
          <>
            {' '}
            · {attempts > 0 ? 'again' : 'due'} <Time at={delivery.next_attempt_at} />
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
        {onResend && status !== 'pending' && (
          <Button look="quiet" disabled={busy} aria-label={`Send again: ${id}`} onClick={onResend}>
            Send again
          </Button>
        )}
      </td>
    </tr>
  )
}

function sayOutcome(delivery: Delivery): string {
  const outcome = sayOutcomeOfMessage(delivery)
  return 'told_with' in delivery && delivery.told_with ? `Told with others in one message. ${outcome}` : outcome
}

function sayOutcomeOfMessage({ status, error, response_status, attempts }: Delivery): string {
  if (status === 'delivered')
    return response_status === null ? 'The mail server took it' : `Answered with ${response_status}`
  if (error) return error
  return attempts === 0 ? 'About to be sent' : 'Not answered yet'
}
