import type { Draft } from './draft.ts'
import styles from './pipeline-editor.module.css'
import { sayPipeline } from './summary-words.ts'
import type { Sync } from './sync.ts'

interface Props {
  draft: Draft
  sync: Sync
  source: string | null
  destination: string | null
  /** What is missing first. */
  gap: string | null
  dirty: boolean
}

/** The pipeline in words, beside the form, growing with it. */
export function Summary({ gap, dirty, ...known }: Props) {
  const { schedule, timezone, enabled } = known.draft
  return (
    <aside className={styles.summary} aria-label="In words">
      <p className={styles.words}>
        {sayPipeline(known).map((word, index) =>
          typeof word === 'string' ? word : <strong key={index}>{word.name}</strong>,
        )}
      </p>
      {schedule && (
        <p className="faint">
          Times are in {timezone ?? 'UTC'}.{!enabled && ' It is disabled, so its schedule is ignored.'}
        </p>
      )}
      {/* The sentence above says already how to begin. */}
      {known.source !== null && (
        <p className="faint">{gap ?? (dirty ? 'Complete, not saved yet.' : 'Nothing is changed.')}</p>
      )}
    </aside>
  )
}
