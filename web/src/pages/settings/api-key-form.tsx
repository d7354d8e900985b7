import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import {
  domainPermissions,
  keyPermissions,
  type Permission,
  ROLES,
  type Role,
  rank,
} from '../../../../server/src/tenancy/permissions.ts'
import { answer, api } from '../../api/client.ts'
import { usePerson } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { Field, SelectField } from '../../components/field.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import { PERMISSION_WORDS } from '../people/words.ts'
import type { CreatedKey } from './new-api-key.tsx'
import { domainsQuery } from './queries.ts'
import styles from './settings.module.css'

type KeyPermission = Exclude<Permission, 'organization:transfer'>
type Limit = 'none' | 'role' | 'permissions'
type Lifetime = 30 | 90 | 180 | 365 | null
const LIFETIMES: readonly Lifetime[] = [30, 90, 180, 365, null]

export function ApiKeyForm({ onCreated, onCancel }: { onCreated(created: CreatedKey): void; onCancel(): void }) {
  const [name, setName] = useState('')
  const [lifetime, setLifetime] = useState<Lifetime>(90)
  const [limit, setLimit] = useState<Limit>('none')
  const [role, setRole] = useState<Role>('viewer')
  const [chosen, setChosen] = useState<KeyPermission[]>([])
  const [domain, setDomain] = useState('')
  const queries = useQueryClient()
  const permissions = domain === '' ? chosen : chosen.filter((permission) => domainPermissions.includes(permission))
  const limits = {
    none: {},
    role: { role },
    permissions: { scopes: { permissions, ...(domain !== '' && { domain_id: domain }) } },
  }[limit]
  const create = useMutation({
    mutationFn: () => answer(api.POST('/api/api-keys', { body: { name, expires_in_days: lifetime, ...limits } })),
    onSuccess: (created) => {
      void queries.invalidateQueries({ queryKey: ['api-keys'] })
      onCreated({ ...created, permissions: limit === 'permissions' ? permissions : null })
    },
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    create.mutate()
  }
  return (
    <form className={styles.panel} onSubmit={submit} aria-label="Create a key">
      <Field
        label="Name"
        required
        maxLength={200}
        autoFocus
        hint="What uses it, so that you know later what a revocation breaks."
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      <SelectField
        label="Expires"
        value={String(lifetime)}
        onChange={(event) => setLifetime(JSON.parse(event.target.value))}
      >
        {LIFETIMES.map((days) => (
          <option key={String(days)} value={String(days)}>
            {days === null ? 'never' : `in ${days} days`}
          </option>
        ))}
      </SelectField>
      <LimitField value={limit} onChange={setLimit} />
      {limit === 'role' && <RoleField value={role} onChange={setRole} />}
      {limit === 'permissions' && (
        <>
          <DomainField value={domain} onChange={setDomain} />
          <Permissions value={permissions} domain={domain || null} onChange={setChosen} />
        </>
      )}
      <ErrorNotice error={create.error} />
      <div className={styles.actions}>
        <Button
          look="primary"
          type="submit"
          busy={create.isPending}
          disabled={limit === 'permissions' && permissions.length === 0}
        >
          Create key
        </Button>
        <Button onClick={onCancel}>Cancel</Button>
      </div>
    </form>
  )
}

const LIMITS: readonly (readonly [Limit, string])[] = [
  ['none', 'Everything that you may do'],
  ['role', 'At most what a role allows'],
  ['permissions', 'Only what is ticked below'],
]

function LimitField({ value, onChange }: { value: Limit; onChange(limit: Limit): void }) {
  return (
    <fieldset className={styles.checks}>
      <legend className={styles.legend}>It may do</legend>
      {LIMITS.map(([limit, words]) => (
        <label key={limit} className={styles.check}>
          <input type="radio" name="limit" checked={value === limit} onChange={() => onChange(limit)} />
          {words}
        </label>
      ))}
    </fieldset>
  )
}

function RoleField({ value, onChange }: { value: Role; onChange(role: Role): void }) {
  const me = usePerson()
  return (
    <SelectField label="Role" value={value} onChange={(event) => onChange(event.target.value as Role)}>
      {ROLES.filter((role) => rank(role) <= rank(me.role)).map((role) => (
        <option key={role}>{role}</option>
      ))}
    </SelectField>
  )
}

function DomainField({ value, onChange }: { value: string; onChange(id: string): void }) {
  const { data: domains = [] } = useQuery(domainsQuery)
  return (
    <SelectField label="Where" value={value} onChange={(event) => onChange(event.target.value)}>
      <option value="">In the whole organization</option>
      {domains.map(({ id, name }) => (
        <option key={id} value={id}>
          Only in {name}
        </option>
      ))}
    </SelectField>
  )
}

interface PermissionsProps {
  value: KeyPermission[]
  domain: string | null
  onChange(permissions: KeyPermission[]): void
}

function Permissions({ value, domain, onChange }: PermissionsProps) {
  const me = usePerson()
  const offered = (domain === null ? keyPermissions : domainPermissions) as readonly KeyPermission[]
  const held = (permission: Permission) =>
    me.permissions.includes(permission) || me.domain_roles.some(({ domain_id }) => domain_id === domain)
  return (
    <fieldset className={styles.checks}>
      <legend className={styles.legend}>Permissions</legend>
      {offered.map((permission) => (
        <label key={permission} className={styles.check} title={permission}>
          <input
            type="checkbox"
            checked={value.includes(permission)}
            disabled={!held(permission)}
            onChange={(event) =>
              onChange(event.target.checked ? [...value, permission] : value.filter((other) => other !== permission))
            }
          />
          {PERMISSION_WORDS[permission]}
          {!held(permission) && ' (you may not do this yourself)'}
        </label>
      ))}
    </fieldset>
  )
}
