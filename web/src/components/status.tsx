import styles from './status.module.css'

export type RunStatus = 'pending' | 'running' | 'success' | 'failed' | 'cancelled'

const MARKS: Record<RunStatus, string> = { pending: '○', running: '◐', success: '●', failed: '✕', cancelled: '–' }
const WORDS: Record<RunStatus, string> = {
  pending: 'Pending',
  running: 'Running',
  success: 'Success',
  failed: 'Failed',
  cancelled: 'Cancelled',
}

export function statusWord(status: RunStatus): string {
  return WORDS[status]
}

/** Only the shape, beside words that tell the state; null is none. */
export function StatusMark({ status }: { status: RunStatus | null }) {
  return (
    <span className={`${styles.status} ${status ? styles[status] : 'faint'}`} aria-hidden="true">
      <span className={styles.mark}>{status ? MARKS[status] : '·'}</span>
    </span>
  )
}

/** The state of a run. Its shape tells it without the colour; the word is there for screen readers, or shown. */
export function Status({ status, word = false }: { status: RunStatus | null; word?: boolean }) {
  if (status === null)
    return <span className="faint">{word ? 'Never ran' : <span className="visually-hidden">Never ran</span>}</span>
  return (
    <span className={`${styles.status} ${styles[status]}`} title={word ? undefined : WORDS[status]}>
      <span aria-hidden="true" className={styles.mark}>
        {MARKS[status]}
      </span>
      <span className={word ? undefined : 'visually-hidden'}>{WORDS[status]}</span>
    </span>
  )
}
