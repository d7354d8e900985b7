import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, type Schemas } from '../../api/client.ts'
import { useMay, usePerson } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import table from '../../components/table.module.css'
import { ApiKeyForm } from './api-key-form.tsx'
import { type CreatedKey, NewApiKey } from './new-api-key.tsx'
import { apiKeysQuery, domainsQuery } from './queries.ts'
import styles from './settings.module.css'
import { SettingsHead } from './settings-head.tsx'

type Key = Schemas['ApiKey']

export function ApiKeysPage() {
  const keys = useQuery(apiKeysQuery)
  const may = useMay('api_keys:write')
  const [creating, setCreating] = useState(false)
  const [created, setCreated] = useState<CreatedKey | null>(null)
  const create = may && !creating && (
    <Button look="primary" onClick={() => setCreating(true)}>
      Create a key
    </Button>
  )
  return (
    <>
      <SettingsHead
        title="API keys"
        lead="For programs that call the API in your name, with your permissions or fewer."
      >
        {keys.data?.length !== 0 && create}
      </SettingsHead>
      {created && <NewApiKey created={created} onDone={() => setCreated(null)} />}
      {creating && (
        <ApiKeyForm
          onCreated={(key) => {
            setCreated(key)
            setCreating(false)
          }}
          onCancel={() => setCreating(false)}
        />
      )}
      {keys.isPending && <Skeleton rows={3} />}
      <ErrorNotice error={keys.error} onRetry={keys.refetch} />
      {keys.data?.length === 0 && !creating && (
        <Empty title="No API key yet" action={create}>
          {may ? 'A key is shown once, when it is created.' : 'Viewers cannot create keys; members can.'}
        </Empty>
      )}
      {keys.data && keys.data.length > 0 && <Keys keys={keys.data} />}
    </>
  )
}

function Keys({ keys }: { keys: Key[] }) {
  return (
    <table className={table.table}>
      <thead>
        <tr>
          <th className={styles.third}>Name</th>
          <th className={`${table.fit} ${table.wide}`}>Begins with</th>
          <th className={`${table.wide} ${styles.third}`}>May do</th>
          <th className={table.wide}>Created by</th>
          <th className={`${table.fit} ${table.wide}`}>Last used</th>
          <th className={table.fit}>Expires</th>
          <th className={`${table.fit} ${table.end}`}>
            <span className="visually-hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {keys.map((key) => (
          <KeyRow key={key.id} apiKey={key} />
        ))}
      </tbody>
    </table>
  )
}

function KeyRow({ apiKey }: { apiKey: Key }) {
  const { name, key_prefix, created_by_name, last_used_at, expires_at } = apiKey
  const limits = useLimits(apiKey.scopes)
  const expired = expires_at !== null && Date.parse(expires_at) < Date.now()
  return (
    <tr>
      <td title={name}>{name}</td>
      <td className={`${table.fit} ${table.wide}`}>
        <code>{key_prefix}</code>
      </td>
      <td className={`${table.wide} soft`} title={limits}>
        {limits}
      </td>
      <td className={`${table.wide} soft`} title={created_by_name}>
        {created_by_name}
      </td>
      <td className={`${table.fit} ${table.wide} soft`}>{last_used_at ? <Time at={last_used_at} /> : 'never'}</td>
      <td className={`${table.fit} soft`}>
        {expires_at === null ? 'never' : expired ? 'expired' : <Time at={expires_at} />}
      </td>
      <td className={`${table.fit} ${table.end}`}>
        <Revoke apiKey={apiKey} />
      </td>
    </tr>
  )
}

function useLimits({ role, permissions, domain_id }: Key['scopes']): string {
  const { data: domains } = useQuery(domainsQuery)
  const domain = domain_id && (domains?.find(({ id }) => id === domain_id)?.name ?? 'one domain')
  const what = permissions ? permissions.join(', ') : role ? `what the role ${role} allows` : 'all its creator may do'
  return domain ? `${what} in ${domain}` : what
}

function Revoke({ apiKey }: { apiKey: Key }) {
  const me = usePerson()
  const may = useMay('api_keys:write')
  const [asking, setAsking] = useState(false)
  const queries = useQueryClient()
  const revoke = useMutation({
    mutationFn: () => api.DELETE('/api/api-keys/{key_id}', { params: { path: { key_id: apiKey.id } } }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['api-keys'] }),
  })
  const own = apiKey.created_by === me.id
  if (!may || !(own || me.role === 'admin' || me.role === 'owner')) return null
  return (
    <>
      <Button look="quiet" aria-label={`Revoke ${apiKey.name}`} onClick={() => setAsking(true)}>
        Revoke
      </Button>
      {asking && (
        <Confirm
          title={`Revoke ${apiKey.name}?`}
          action="Revoke the key"
          onConfirm={() => revoke.mutate()}
          onClose={() => setAsking(false)}
          busy={revoke.isPending}
          error={revoke.error}
        >
          <p>
            Whatever uses <code>{apiKey.key_prefix}…</code> is refused from now on, and so are keys that were created
            with it.
          </p>
        </Confirm>
      )}
    </>
  )
}
