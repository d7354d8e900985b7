import type { ComponentProps } from 'react'
import styles from './button.module.css'

interface Props extends ComponentProps<'button'> {
  look?: 'primary' | 'plain' | 'quiet' | 'danger'
  /** The action is under way: it cannot be started again, and the button says so. */
  busy?: boolean
}

export function Button({ look = 'plain', busy = false, className = '', disabled, ...rest }: Props) {
  return (
    <button
      type="button"
      {...rest}
      className={`${styles.button} ${styles[look]} ${className}`}
      aria-busy={busy || undefined}
      disabled={disabled || busy}
    />
  )
}
