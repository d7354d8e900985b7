import { type ReactNode, useState } from 'react'
import styles from './schema-form.module.css'

interface Props {
  title: string
  names: string[]
  used(name: string): boolean
  wrong(name: string): boolean
  draw(name: string): ReactNode
}

/** Open where something in it is set already or is wrong; otherwise as the person left it. */
export function More({ title, names, used, wrong, draw }: Props) {
  const [open, setOpen] = useState(() => names.some(used))
  if (names.length === 0) return null
  return (
    <details
      className={styles.more}
      open={open || names.some(wrong)}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>{title}</summary>
      <div className={styles.form}>{names.map(draw)}</div>
    </details>
  )
}
