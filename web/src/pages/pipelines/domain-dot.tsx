import styles from './domain-dot.module.css'

/** A domain by its colour and its name; the name is in the title too, because it may be cut or hidden. */
export function DomainDot({ name, color }: { name: string; color: string | null }) {
  return (
    <span className={styles.domain} title={name}>
      <span className={styles.dot} style={color === null ? undefined : { backgroundColor: color }} aria-hidden="true" />
      <span className={styles.name}>{name}</span>
    </span>
  )
}
