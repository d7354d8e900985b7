import { CopyButton } from './copy-button.tsx'
import styles from './copy-text.module.css'

/** A text that is there to be copied whole: a key, a link, a command. */
export function CopyText({ text, label }: { text: string; label: string }) {
  return (
    <figure className={styles.box}>
      <figcaption>{label}</figcaption>
      <code className={styles.text}>{text}</code>
      <CopyButton text={text} aria-label={`Copy: ${label}`} />
    </figure>
  )
}
