import { Link, type LinkProps } from '@tanstack/react-router'
import buttons from '../../components/button.module.css'
import { Count } from '../../components/quantities.tsx'
import styles from './pager.module.css'

interface Props {
  /** From 1. */
  page: number
  size: number
  total: number
  link(page: number): LinkProps
}

/** Which part of a list this is, and the ways to its neighbours. Each page is an address. */
export function Pager({ page, size, total, link }: Props) {
  if (total <= size && page === 1) return null
  const last = Math.min(page * size, total)
  const look = `${buttons.button} ${buttons.plain}`
  return (
    <nav className={styles.pager} aria-label="Pages">
      <span className="soft">
        <Count value={(page - 1) * size + 1} /> to <Count value={last} /> of <Count value={total} />
      </span>
      {page > 1 && (
        <Link {...link(page - 1)} className={look}>
          Newer
        </Link>
      )}
      {last < total && (
        <Link {...link(page + 1)} className={look}>
          Older
        </Link>
      )}
    </nav>
  )
}
