import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { Field, SelectField } from '../../components/field.tsx'
import { membersQuery } from '../people/queries.ts'
import { KNOWN_ACTIONS } from './audit-sentence.ts'
import type { AuditSearch } from './routes.ts'
import styles from './settings.module.css'

const TYPES = [
  'api_key',
  'custom_source',
  'domain',
  'domain_role',
  'invitation',
  'membership',
  'organization',
  'pipeline',
  'pipeline_state',
  'run',
  'saved_connector',
  'session',
  'user',
  'webhook',
  'alert',
]

/** The filters of the audit log. They are in the address. */
export function AuditFilterRow({ search }: { search: AuditSearch }) {
  const navigate = useNavigate()
  const { data: members = [] } = useQuery(membersQuery)
  const set = (changed: Partial<AuditSearch>) =>
    navigate({ to: '/settings/audit', search: { ...search, ...changed, before: undefined }, replace: true })
  const filtered = Object.values(search).some((value) => value !== undefined)
  return (
    <search className={styles.filters}>
      <SelectField
        label="Who"
        value={search.actor ?? ''}
        onChange={(event) => set({ actor: event.target.value || undefined })}
      >
        <option value="">anyone</option>
        {members.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </SelectField>
      <SelectField
        label="Action"
        value={search.action ?? ''}
        onChange={(event) => set({ action: event.target.value || undefined })}
      >
        <option value="">any</option>
        {KNOWN_ACTIONS.toSorted().map((action) => (
          <option key={action} value={action}>
            {action.replace(/[._]/g, ' ')}
          </option>
        ))}
      </SelectField>
      <SelectField
        label="What"
        value={search.type ?? ''}
        onChange={(event) => set({ type: event.target.value || undefined })}
      >
        <option value="">anything</option>
        {TYPES.map((type) => (
          <option key={type} value={type}>
            {type.replaceAll('_', ' ')}
          </option>
        ))}
      </SelectField>
      <Field
        label="Its id"
        value={search.object ?? ''}
        spellCheck={false}
        autoComplete="off"
        onChange={(event) => set({ object: event.target.value.trim() || undefined })}
      />
      <Field
        label="From"
        type="date"
        value={search.since ?? ''}
        onChange={(event) => set({ since: event.target.value || undefined })}
      />
      <Field
        label="To"
        type="date"
        value={search.until ?? ''}
        onChange={(event) => set({ until: event.target.value || undefined })}
      />
      {filtered && <Link to="/settings/audit">Clear the filters</Link>}
    </search>
  )
}
