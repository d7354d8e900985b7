import type { ReactNode } from 'react'
import { ApiError } from '../api/client.ts'
import { Button } from './button.tsx'
import styles from './notice.module.css'

/** An error in words, with the request id for whoever is asked for help. */
export function ErrorNotice({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  if (!error) return null
  const message = error instanceof Error ? error.message : String(error)
  return (
    <div role="alert" className={styles.error}>
      <div>
        <p>{message}</p>
        {error instanceof ApiError && error.requestId && <p className={styles.meta}>Request {error.requestId}</p>}
      </div>
      {onRetry && <Button onClick={onRetry}>Try again</Button>}
    </div>
  )
}

/** A place with nothing in it yet: what it is for, and the first step. */
export function Empty({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className={styles.empty}>
      <h2>{title}</h2>
      {children && <p className="soft">{children}</p>}
      {action}
    </div>
  )
}

export function Skeleton({ rows = 6, height = 36 }: { rows?: number; height?: number }) {
  return (
    <div className={styles.skeleton} role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} style={{ height }} />
      ))}
    </div>
  )
}
