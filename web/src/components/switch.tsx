import styles from './switch.module.css'

interface Props {
  /** What is switched; drawn only with `shown`. */
  label: string
  checked: boolean
  onChange(checked: boolean): void
  disabled?: boolean
  shown?: boolean
  /** Why it cannot be changed, or what it does. */
  title?: string | undefined
}

/** On or off, at once: there is nothing to save. */
export function Switch({ label, checked, onChange, disabled = false, shown = false, title }: Props) {
  return (
    <button
      type="button"
      role="switch"
      aria-checked={checked}
      aria-label={shown ? undefined : label}
      className={styles.switch}
      disabled={disabled}
      title={title ?? (shown ? undefined : label)}
      onClick={(event) => {
        event.stopPropagation()
        onChange(!checked)
      }}
    >
      <span aria-hidden="true" className={styles.track} />
      {shown && label}
    </button>
  )
}
