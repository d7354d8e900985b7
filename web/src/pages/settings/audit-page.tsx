import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { useMay } from '../../api/person.ts'
import { NotAllowed } from '../../components/not-allowed.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import { membersQuery } from '../people/queries.ts'
import { AuditDownload } from './audit-download.tsx'
import { AuditFilterRow } from './audit-filter-row.tsx'
import { type AuditLine, type Names, sayAction } from './audit-sentence.ts'
import { type AuditFilters, apiKeysQuery, auditQuery, domainsQuery } from './queries.ts'
import type { AuditSearch } from './routes.ts'
import styles from './settings.module.css'
import { SettingsHead } from './settings-head.tsx'

const PAGE = 50

export function AuditPage() {
  const may = useMay('audit:read')
  const search = useSearch({ from: '/frame/settings/audit' })
  const filters = toFilters(search)
  return (
    <>
      <SettingsHead title="Audit" lead="Who changed what. Lines are never changed or deleted.">
        {may && <AuditDownload filters={filters} />}
      </SettingsHead>
      {may ? (
        <>
          <AuditFilterRow search={search} />
          <Lines search={search} filters={filters} />
        </>
      ) : (
        <NotAllowed permission="audit:read" what="The audit log" />
      )}
    </>
  )
}

/** Days of the viewer's own zone become times. */
export function toFilters({ actor, action, type, object, since, until }: AuditSearch): AuditFilters {
  const start = since ? new Date(`${since}T00:00`) : null
  const end = until ? new Date(`${until}T00:00`) : null
  end?.setDate(end.getDate() + 1)
  return {
    ...(actor && { actor_id: actor }),
    ...(action && { action }),
    ...(type && { object_type: type }),
    ...(object && { object_id: object }),
    ...(isTime(start) && { since: start.toISOString() }),
    ...(isTime(end) && { until: end.toISOString() }),
  }
}

function isTime(date: Date | null): date is Date {
  return date !== null && !Number.isNaN(date.getTime())
}

function Lines({ search, filters }: { search: AuditSearch; filters: AuditFilters }) {
  const { before } = search
  const lines = useQuery(auditQuery({ ...filters, limit: PAGE, ...(before && { before }) }))
  const names = useNames()
  if (lines.isPending) return <Skeleton rows={12} />
  if (!lines.data) return <ErrorNotice error={lines.error} onRetry={lines.refetch} />
  const { items } = lines.data
  if (items.length === 0) return <Empty title="Nothing matches">Widen the filters to see more.</Empty>
  return (
    <>
      <div className={styles.lines}>
        {items.map((line) => (
          <Line key={line.id} line={line} names={names} />
        ))}
      </div>
      <nav className={styles.pages} aria-label="Pages">
        {before && (
          <Link to="/settings/audit" search={{ ...search, before: undefined }}>
            Newest
          </Link>
        )}
        {items.length === PAGE && (
          <Link to="/settings/audit" search={{ ...search, before: items.at(-1)!.id }}>
            Older
          </Link>
        )}
      </nav>
    </>
  )
}

function useNames(): Names {
  const { data: members = [] } = useQuery(membersQuery)
  const { data: domains = [] } = useQuery(domainsQuery)
  const { data: keys = [] } = useQuery(apiKeysQuery)
  const names = new Map([...members, ...domains, ...keys].map(({ id, name }) => [id, name]))
  return (id) => names.get(id)
}

/** Where objects can be looked at. Those that were deleted say so there. */
const OPENS: Record<string, string> = {
  pipeline: '/pipelines/',
  pipeline_state: '/pipelines/',
  run: '/runs/',
  membership: '/people/',
  webhook: '/settings/webhooks/',
  alert: '/settings/alerts/',
}

function Line({ line, names }: { line: AuditLine; names: Names }) {
  const { actor_id, actor_email, api_key_id, at } = line
  const actor = (actor_id && names(actor_id)) ?? actor_email ?? 'Someone'
  return (
    <details className={styles.line}>
      <summary>
        <span className="soft">
          <Time at={at} />
        </span>
        <span>
          <strong title={actor_email ?? undefined}>{actor}</strong> {sayAction(line, names)}
          {api_key_id && <span className="soft"> · with the API key {names(api_key_id) ?? 'that is revoked now'}</span>}
        </span>
      </summary>
      <p className={styles.about}>
        {OPENS[line.object_type] && line.object_id && (
          <a href={`${OPENS[line.object_type]}${line.object_id}`}>Open it</a>
        )}
        {line.object_id && (
          <Link to="/settings/audit" search={{ type: line.object_type, object: line.object_id }}>
            All about it
          </Link>
        )}
        {actor_id && (
          <Link to="/settings/audit" search={{ actor: actor_id }}>
            All by {actor}
          </Link>
        )}
      </p>
      <pre className={styles.raw}>{JSON.stringify(line, null, 2)}</pre>
    </details>
  )
}
