import { Button } from '../../components/button.tsx'
import { Time } from '../../components/quantities.tsx'
import styles from './sources.module.css'

interface Props {
  /** When the draft was kept. */
  at: string | null
  shown: boolean
  onDiscard(): void
}

/** Says that what is in the editor is a draft from before. */
export function DraftNotice({ at, shown, onDiscard }: Props) {
  if (at === null || !shown) return null
  return (
    <p className={styles.draft}>
      <span>
        These are unsaved changes from <Time at={at} />.
      </span>
      <Button look="quiet" onClick={onDiscard}>
        Discard them
      </Button>
    </p>
  )
}
