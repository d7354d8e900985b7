/** What can be done with the selected pipelines, at the bottom of the window while there are any. */
import { useEffect, useState } from 'react'
import type { Schemas } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { ConfirmByTyping } from '../../components/confirm-by-typing.tsx'
import { Menu } from '../../components/menu.tsx'
import styles from './action-bar.module.css'
import type { ActionName } from './change-pipelines.ts'
import type { PipelineItem } from './queries.ts'
import type { Selection } from './selection.ts'

interface Props {
  selection: Selection
  domains: readonly Schemas['DomainListItem'][]
  busy: boolean
  /** How many are copied so far, while that goes on. */
  copied: number | null
  onAct(action: ActionName, items: PipelineItem[], domainId?: string | null): void
}

export function ActionBar({ selection, domains, busy, copied, onAct }: Props) {
  const [deleting, setDeleting] = useState(false)
  const mayRun = useMay('pipelines:run')
  const mayWrite = useMay('pipelines:write')
  const items = [...selection.items.values()]
  const { clear } = selection
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key === 'Escape' && !document.querySelector('dialog[open], :popover-open')) clear()
    }
    window.addEventListener('keydown', press)
    return () => window.removeEventListener('keydown', press)
  })
  const act = (action: ActionName) => () => onAct(action, items)
  const places = [{ id: null, name: 'No domain' }, ...domains]
  const what = items.length === 1 ? '1 pipeline' : `${items.length.toLocaleString()} pipelines`
  return (
    <section className={styles.bar} aria-label="Actions on the selected pipelines">
      <p aria-live="polite">{copied === null ? `${what} selected` : `Copied ${copied} of ${what}…`}</p>
      {mayRun && (
        <Button busy={busy} onClick={act('run')}>
          Run now
        </Button>
      )}
      {mayWrite && (
        <>
          <Button busy={busy} onClick={act('enable')}>
            Enable
          </Button>
          <Button busy={busy} onClick={act('disable')}>
            Disable
          </Button>
          <Menu
            label="Move to a domain"
            icon="down"
            items={places.map(({ id, name }) => ({ label: name, onSelect: () => onAct('move', items, id) }))}
          >
            Move
          </Menu>
          <Button busy={busy} onClick={act('copy')}>
            Copy
          </Button>
          <Button look="danger" busy={busy} onClick={() => setDeleting(true)}>
            Delete
          </Button>
        </>
      )}
      {!mayRun && !mayWrite && <p className="faint">Your role may only look at pipelines.</p>}
      <Button look="quiet" onClick={clear}>
        Clear selection
      </Button>
      {deleting && (
        <ConfirmByTyping
          title={`Delete ${what}`}
          word={items.length === 1 ? items[0]!.name : `delete ${items.length}`}
          action={`Delete ${what}`}
          onClose={() => setDeleting(false)}
          onConfirm={() => {
            setDeleting(false)
            onAct('delete', items)
          }}
        >
          <p>
            Runs that are going on are cancelled. Their runs, logs and outputs go too, and nothing brings them back.
            What is in the destinations stays.
          </p>
        </ConfirmByTyping>
      )}
    </section>
  )
}
