import { type ReactNode, useId } from 'react'
import styles from './field.module.css'

export interface Labels {
  label: ReactNode
  hint?: ReactNode
  problem?: string | null | undefined
  className?: string
}

interface Attributes {
  id: string
  className: string
  'aria-invalid': true | undefined
  'aria-describedby': string | undefined
}

/** The label of a control, with its hint or its problem beside it. */
export function Labelled({
  label,
  hint,
  problem,
  className = '',
  children,
}: Labels & { children(attributes: Attributes): ReactNode }) {
  const id = useId()
  const about = problem ?? hint
  return (
    <div className={`${styles.field} ${className}`}>
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        className: styles.input!,
        'aria-invalid': problem ? true : undefined,
        'aria-describedby': about ? `${id}-about` : undefined,
      })}
      {about && (
        <p id={`${id}-about`} className={problem ? styles.problem : styles.hint}>
          {about}
        </p>
      )}
    </div>
  )
}
