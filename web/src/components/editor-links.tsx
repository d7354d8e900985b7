import { Link } from '@tanstack/react-router'
import { useMay } from '../api/person.ts'
import styles from './button.module.css'

/** Only for those who may create one. */
export function NewPipeline({ look = 'primary' }: { look?: 'primary' | 'plain' }) {
  if (!useMay('pipelines:write')) return null
  return (
    <Link to="/pipelines/new" className={`${styles.button} ${styles[look]}`}>
      New pipeline
    </Link>
  )
}

export function EditPipeline({ id, domainId }: { id: string; domainId: string | null }) {
  if (!useMay('pipelines:write', domainId)) return null
  return (
    <Link to="/pipelines/$id/edit" params={{ id }} className={`${styles.button} ${styles.plain}`}>
      Edit
    </Link>
  )
}
