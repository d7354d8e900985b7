/** The higher roles that a member has in single domains. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api, type Schemas } from '../../api/client.ts'
import { useMay, usePerson } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { SelectField } from '../../components/field.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { DomainDot } from '../settings/domain-dot.tsx'
import { domainsQuery } from '../settings/queries.ts'
import styles from './people.module.css'
import { domainRolesQuery } from './queries.ts'

type Member = Schemas['Member']

export function DomainRoles({ member }: { member: Member }) {
  const roles = useQuery(domainRolesQuery(member.id))
  const may = useMay('users:manage_roles')
  const queries = useQueryClient()
  const revoke = useMutation({
    mutationFn: (domain_id: string) =>
      api.DELETE('/api/users/{user_id}/domain-roles/{domain_id}', {
        params: { path: { user_id: member.id, domain_id } },
      }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['members', member.id] }),
  })
  const above = member.role === 'admin' || member.role === 'owner'
  return (
    <section>
      <h2>Roles in domains</h2>
      <p className="soft">
        {above
          ? `The role ${member.role} already allows everything in every domain.`
          : 'A higher role in one domain, for its pipelines alone.'}
      </p>
      {roles.isPending && <Skeleton rows={2} />}
      <ErrorNotice error={roles.error ?? revoke.error} />
      {roles.data && roles.data.length === 0 && !above && <p className="faint">None.</p>}
      <ul className={styles.roles}>
        {roles.data?.map(({ id, domain_id, domain_name, role }) => (
          <li key={id}>
            <span className={styles.domain}>
              <DomainDot id={domain_id} />
              {domain_name}
            </span>
            <span className="soft">{role}</span>
            {may && (
              <Button
                look="quiet"
                disabled={revoke.isPending}
                aria-label={`Revoke the role in ${domain_name}`}
                onClick={() => revoke.mutate(domain_id)}
              >
                Revoke
              </Button>
            )}
          </li>
        ))}
      </ul>
      {may && !above && roles.data && <GiveRole member={member} taken={roles.data.map(({ domain_id }) => domain_id)} />}
    </section>
  )
}

function GiveRole({ member, taken }: { member: Member; taken: string[] }) {
  const domains = useQuery(domainsQuery)
  const me = usePerson()
  const queries = useQueryClient()
  const [chosen, setChosen] = useState('')
  const [role, setRole] = useState<'member' | 'admin'>('member')
  const free = domains.data?.filter(({ id }) => !taken.includes(id)) ?? []
  const domain_id = free.some(({ id }) => id === chosen) ? chosen : (free[0]?.id ?? '')
  const give = useMutation({
    mutationFn: () =>
      api.POST('/api/users/{user_id}/domain-roles', {
        params: { path: { user_id: member.id } },
        body: { domain_id, role },
      }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['members', member.id] }),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    give.mutate()
  }
  if (!domains.data) return null
  if (domains.data.length === 0)
    return (
      <p className="faint">
        There is no domain yet. <Link to="/settings/domains">Create one</Link>
      </p>
    )
  if (free.length === 0) return null
  return (
    <form className={styles.give} onSubmit={submit}>
      <SelectField label="Domain" value={domain_id} onChange={(event) => setChosen(event.target.value)}>
        {free.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </SelectField>
      <SelectField
        label="Role there"
        value={role}
        onChange={(event) => setRole(event.target.value as 'member' | 'admin')}
      >
        {member.role === 'viewer' && <option value="member">member</option>}
        {member.role !== 'viewer' && <option value="member">member (the same as everywhere)</option>}
        <option value="admin" disabled={me.role !== 'owner'}>
          admin{me.role === 'owner' ? '' : ' (only the owner gives this)'}
        </option>
      </SelectField>
      <Button type="submit" busy={give.isPending}>
        Give the role
      </Button>
      <ErrorNotice error={give.error} />
    </form>
  )
}
