import { Link, type LinkProps } from '@tanstack/react-router'
import styles from './choices.module.css'

interface Props<Value extends string> {
  label: string
  value: string | undefined
  options: readonly (readonly [Value | undefined, string])[]
  link(value: Value | undefined): LinkProps
}

/** A filter of which one choice holds. Each choice is an address. */
export function Choices<Value extends string>({ label, value, options, link }: Props<Value>) {
  return (
    <nav aria-label={label} className={styles.choices}>
      {options.map(([option, words]) => (
        <Link
          key={words}
          {...link(option)}
          // Without it the choice of everything would be taken for current beside every other one.
          activeOptions={{ exact: true }}
          aria-current={option === value ? 'true' : undefined}
          className={`${styles.choice} ${option === value ? styles.current : ''}`}
        >
          {words}
        </Link>
      ))}
    </nav>
  )
}
