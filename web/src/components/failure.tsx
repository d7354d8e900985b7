import { type ErrorComponentProps, Link } from '@tanstack/react-router'
import styles from './failure.module.css'
import { ErrorNotice } from './notice.tsx'
import { PageHead } from './page-head.tsx'

export function NotFound() {
  return (
    <PageHead title="There is no such page" lead="It may have been moved or deleted, or the address is mistyped.">
      <Link to="/">Go to the start</Link>
    </PageHead>
  )
}

/** Outside of the frame, at an address that the console does not have. */
export function UnknownAddress() {
  return (
    <main className={styles.alone}>
      <NotFound />
    </main>
  )
}

/** A page that broke. The frame around it stays usable. */
export function Failure({ error, reset }: ErrorComponentProps) {
  return <ErrorNotice error={error} onRetry={reset} />
}
