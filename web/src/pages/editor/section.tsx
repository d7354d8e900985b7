import type { ReactNode } from 'react'
import styles from './section.module.css'

interface Props {
  id: string
  number: number
  title: string
  /** What was chosen, in a few words, while it is closed. */
  brief: ReactNode
  state: 'waiting' | 'unfinished' | 'done'
  open: boolean
  /** Null: it cannot be closed. */
  onToggle: (() => void) | null
  children: ReactNode
}

/** A step of the editor. One that waits for the step before it has only a heading. */
export function Section({ id, number, title, brief, state, open, onToggle, children }: Props) {
  const waits = state === 'waiting'
  const shown = open && !waits
  const mark = (
    <span className={`${styles.mark} ${state === 'done' ? styles.done : ''}`} aria-hidden="true">
      {state === 'done' ? '✓' : number}
    </span>
  )
  return (
    <section id={id} className={styles.section} aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`} className={styles.title}>
        {waits || onToggle === null ? (
          <span className={waits ? styles.waiting : styles.toggle}>
            {mark}
            {title}
          </span>
        ) : (
          <button type="button" className={styles.toggle} aria-expanded={shown} onClick={onToggle}>
            {mark}
            <span>{title}</span>
            {!shown && <span className={styles.brief}>{brief}</span>}
            <span className={styles.change} aria-hidden="true">
              {shown ? 'Close' : 'Change'}
            </span>
          </button>
        )}
      </h2>
      {shown && <div className={styles.body}>{children}</div>}
    </section>
  )
}
