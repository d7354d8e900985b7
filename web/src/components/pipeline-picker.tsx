/** Chooses one of thousands of pipelines: the server searches while one types. A combobox, by the ARIA pattern. */
import { useQuery } from '@tanstack/react-query'
import { type KeyboardEvent, useDeferredValue, useId, useState } from 'react'
import { pipelinesQuery } from '../api/queries.ts'
import { Button } from './button.tsx'
import { Icon } from './icon.tsx'
import styles from './pipeline-picker.module.css'

interface Props {
  label: string
  placeholder: string
  /** The name of the one that is chosen. */
  chosen: string | null
  onChoose(id: string | null): void
}

const SHOWN = 8

export function PipelinePicker({ label, placeholder, chosen, onChoose }: Props) {
  const id = useId()
  const [typed, setTyped] = useState('')
  const [open, setOpen] = useState(false)
  const [at, setAt] = useState(0)
  const q = useDeferredValue(typed.trim())
  const found = useQuery({
    ...pipelinesQuery({ limit: SHOWN, sort: 'name', ...(q && { q }) }),
    enabled: open,
  })
  const items = found.data?.items ?? []
  if (chosen !== null)
    return (
      <span className={styles.chosen}>
        <span className={styles.name} title={chosen}>
          {chosen}
        </span>
        <Button look="quiet" aria-label={`Remove the filter by ${chosen}`} onClick={() => onChoose(null)}>
          <Icon name="close" />
        </Button>
      </span>
    )
  function choose(index: number) {
    const pipeline = items[index]
    if (pipeline === undefined) return
    setTyped('')
    setOpen(false)
    onChoose(pipeline.id)
  }
  function press(event: KeyboardEvent) {
    if (event.key === 'Escape') setOpen(false)
    else if (event.key === 'Enter') choose(at)
    else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      setOpen(true)
      setAt((at + (event.key === 'ArrowDown' ? 1 : items.length - 1)) % Math.max(1, items.length))
    } else return
    event.preventDefault()
  }
  return (
    <span className={styles.picker}>
      <input
        role="combobox"
        aria-label={label}
        aria-expanded={open}
        aria-controls={id}
        aria-autocomplete="list"
        aria-activedescendant={open && items[at] ? `${id}-${at}` : undefined}
        placeholder={placeholder}
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value)
          setOpen(true)
          setAt(0)
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={press}
      />
      <div id={id} role="listbox" aria-label={label} className={styles.list} hidden={!open}>
        {items.map((pipeline, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field has the keys
          // biome-ignore lint/a11y/useFocusableInteractive: the field keeps the focus
          <div
            key={pipeline.id}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === at}
            // Before the field loses the focus, which would close the list.
            onPointerDown={(event) => event.preventDefault()}
            onClick={() => choose(index)}
          >
            {pipeline.name}
          </div>
        ))}
        {found.data && items.length === 0 && <p className="faint">No pipeline has this name.</p>}
      </div>
    </span>
  )
}
