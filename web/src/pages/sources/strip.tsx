/** One line below the editor: valid, with what was found in the text, or the first problem and the way to it. */
import { Button } from '../../components/button.tsx'
import type { Validation } from './authored.ts'
import { countSettings } from './settings.ts'
import type { LiveValidation } from './use-validation.ts'
import styles from './workspace.module.css'

interface Props {
  validation: LiveValidation
  onJump(line: number, column: number): void
}

export function Strip({ validation: { latest, current, error }, onJump }: Props) {
  if (error) return <p className={styles.strip}>Not checked: {error.message}</p>
  if (latest === null) return <p className={`${styles.strip} faint`}>Checking…</p>
  const [first, ...others] = latest.findings
  return (
    <div role="status" className={styles.strip} data-fresh={current !== null}>
      {latest.valid ? (
        <p className={styles.valid}>
          <span aria-hidden="true">●</span> Valid {found(latest)}
        </p>
      ) : (
        <p className={styles.invalid}>
          <span aria-hidden="true">✕</span> Not valid
        </p>
      )}
      {first && (
        <Button
          look="quiet"
          className={`${styles.problem} ${first.severity === 'error' ? styles.invalid : styles.warn}`}
          onClick={() => onJump(first.line, first.column)}
        >
          Line {first.line}: {first.message}
        </Button>
      )}
      {others.length > 0 && <span className="faint">and {others.length} more</span>}
    </div>
  )
}

function found({ streams, settings }: Validation): string {
  const count = countSettings(settings)
  const dynamic = streams.length === 1 && streams[0] === 'dynamic'
  const many = dynamic ? 'streams from the server' : `${streams.length} ${streams.length === 1 ? 'stream' : 'streams'}`
  return `· ${many} · ${count} ${count === 1 ? 'setting' : 'settings'}`
}
