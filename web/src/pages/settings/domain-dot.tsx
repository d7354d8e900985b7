import { useQuery } from '@tanstack/react-query'
import { domainsQuery } from './queries.ts'
import styles from './settings.module.css'

/** The colour of a domain; its name always stands beside it. */
export function DomainDot({ id }: { id: string }) {
  const { data } = useQuery(domainsQuery)
  return <ColorDot color={data?.find((domain) => domain.id === id)?.color ?? null} />
}

export function ColorDot({ color }: { color: string | null }) {
  return (
    <span aria-hidden="true" className={styles.dot} style={color ? { background: color, borderColor: color } : {}} />
  )
}
