import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, type Schemas } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Menu } from '../../components/menu.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Count } from '../../components/quantities.tsx'
import table from '../../components/table.module.css'
import { ColorDot } from './domain-dot.tsx'
import { DomainForm } from './domain-form.tsx'
import { domainsQuery } from './queries.ts'
import styles from './settings.module.css'
import { SettingsHead } from './settings-head.tsx'

type Domain = Schemas['DomainListItem']

export function DomainsPage() {
  const domains = useQuery(domainsQuery)
  const may = useMay('domains:write', null)
  const [creating, setCreating] = useState(false)
  const create = may && (
    <Button look="primary" onClick={() => setCreating(true)}>
      Create a domain
    </Button>
  )
  return (
    <>
      <SettingsHead
        title="Domains"
        lead="A domain groups pipelines, for a team or a topic. People can have a higher role in one."
      >
        {domains.data?.length !== 0 && create}
      </SettingsHead>
      {domains.isPending && <Skeleton rows={4} />}
      <ErrorNotice error={domains.error} onRetry={domains.refetch} />
      {domains.data?.length === 0 && (
        <Empty title="No domain yet" action={create}>
          {may ? 'Pipelines work without one.' : 'Admins and the owner create domains.'}
        </Empty>
      )}
      {domains.data && domains.data.length > 0 && <Domains domains={domains.data} />}
      {creating && (
        <Dialog title="Create a domain" onClose={() => setCreating(false)}>
          <DomainForm domain={null} onDone={() => setCreating(false)} />
        </Dialog>
      )}
    </>
  )
}

function Domains({ domains }: { domains: Domain[] }) {
  return (
    <table className={table.table}>
      <thead>
        <tr>
          <th>Name</th>
          <th className={table.wide}>Description</th>
          <th className={`${table.fit} ${table.end}`}>Pipelines</th>
          <th className={`${table.fit} ${table.end}`}>
            <span className="visually-hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {domains.map((domain) => (
          <tr key={domain.id}>
            <td title={domain.name}>
              <span className={styles.domain}>
                <ColorDot color={domain.color} />
                <span>{domain.name}</span>
              </span>
            </td>
            <td className={`${table.wide} soft`} title={domain.description ?? undefined}>
              {domain.description}
            </td>
            <td className={`${table.fit} ${table.end}`}>
              <Link to="/pipelines" search={{ domain_id: domain.id }} className={table.count}>
                <Count value={domain.pipeline_count ?? 0} />
              </Link>
            </td>
            <td className={`${table.fit} ${table.end}`}>
              <DomainActions domain={domain} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function DomainActions({ domain }: { domain: Domain }) {
  const mayWrite = useMay('domains:write', domain.id)
  const mayDelete = useMay('domains:delete')
  const [asking, setAsking] = useState<'edit' | 'delete' | null>(null)
  const queries = useQueryClient()
  const remove = useMutation({
    mutationFn: () => api.DELETE('/api/domains/{domain_id}', { params: { path: { domain_id: domain.id } } }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['domains'] }),
  })
  if (!mayWrite && !mayDelete) return null
  const count = domain.pipeline_count ?? 0
  const full = count === 0 ? null : `It has ${count} pipeline${count === 1 ? '' : 's'}: move or delete them first`
  return (
    <>
      <Menu
        label={`Actions for ${domain.name}`}
        items={[
          { label: 'Edit…', onSelect: () => setAsking('edit') },
          ...(mayDelete
            ? [{ label: 'Delete…', onSelect: () => setAsking('delete'), danger: true, disabled: full }]
            : []),
        ]}
      />
      {asking === 'edit' && (
        <Dialog title={`Edit ${domain.name}`} onClose={() => setAsking(null)}>
          <DomainForm domain={domain} onDone={() => setAsking(null)} />
        </Dialog>
      )}
      {asking === 'delete' && (
        <Confirm
          title={`Delete ${domain.name}?`}
          action="Delete the domain"
          onConfirm={() => remove.mutate()}
          onClose={() => setAsking(null)}
          busy={remove.isPending}
          error={remove.error}
        >
          <p>The roles that people have in it end. It has no pipelines.</p>
        </Confirm>
      )}
    </>
  )
}
