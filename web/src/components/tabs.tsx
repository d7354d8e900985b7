import { Link, type LinkProps } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import styles from './tabs.module.css'

interface Props<Value extends string> {
  label: string
  value: Value
  options: readonly (readonly [Value, ReactNode])[]
  link(value: Value): LinkProps
}

/** The parts of a page. Each tab is an address, so that it can be linked to, and back returns to the one before. */
export function Tabs<Value extends string>({ label, value, options, link }: Props<Value>) {
  return (
    <nav aria-label={label} className={styles.tabs}>
      {options.map(([option, words]) => (
        <Link
          key={option}
          {...link(option)}
          resetScroll={false}
          aria-current={option === value ? 'page' : undefined}
          className={`${styles.tab} ${option === value ? styles.current : ''}`}
        >
          {words}
        </Link>
      ))}
    </nav>
  )
}
