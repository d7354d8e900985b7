/** One saved connector: its settings, a test, and where it is used. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { type ConnectorKind, catalogueQuery, savedConnectorQuery, usesQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { PageHead } from '../../components/page-head.tsx'
import { ConnectionForm } from './connection-form.tsx'
import styles from './connections.module.css'
import { type ConnectorSettings, hideConnectorSecrets } from './connector-form.tsx'

export function ConnectionPage() {
  const { kind, id } = useParams({ from: '/frame/connections/$kind/$id' }) as { kind: ConnectorKind; id: string }
  const saved = useQuery(savedConnectorQuery(kind, id))
  const catalogue = useQuery(catalogueQuery(kind))
  if (saved.isPending || catalogue.isPending) return <Skeleton rows={8} />
  // A refetch that fails keeps the form: what was typed must stay.
  if (!saved.data || !catalogue.data)
    return (
      <ErrorNotice
        error={saved.error ?? catalogue.error}
        onRetry={() => Promise.all([saved.refetch(), catalogue.refetch()])}
      />
    )
  const { name, description, config, connector_name } = saved.data
  const connector = catalogue.data.find((candidate) => candidate.name === connector_name)
  const settings = kind === 'source' ? ({ config: {}, ...config } as unknown as ConnectorSettings) : { config }
  return (
    <>
      <PageHead
        title={name}
        trail={[['Connections', { to: '/connections', search: { kind } }]]}
        lead={`${connector?.display_name ?? connector_name} ${kind}`}
      >
        <DeleteConnection kind={kind} id={id} name={name} />
      </PageHead>
      <div className={styles.sides}>
        {connector ? (
          <ConnectionForm
            key={id}
            kind={kind}
            connector={connector}
            stored={{ id, name, description, settings: hideConnectorSecrets(connector, settings) }}
          />
        ) : (
          <Empty title="Its connector is gone">
            This installation has no connector {connector_name} any more, so its settings cannot be shown.
          </Empty>
        )}
        <Uses kind={kind} id={id} />
      </div>
    </>
  )
}

function Uses({ kind, id }: { kind: ConnectorKind; id: string }) {
  const uses = useQuery(usesQuery(kind, id))
  return (
    <section aria-labelledby="uses">
      <h2 id="uses">Used by</h2>
      {uses.isPending && <Skeleton rows={2} />}
      <ErrorNotice error={uses.error} onRetry={uses.refetch} />
      {uses.data?.length === 0 && <p className="faint">No pipeline uses it.</p>}
      <ul className={styles.users}>
        {uses.data?.map((pipeline) => (
          <li key={pipeline.id}>
            <Link to="/pipelines/$id" params={{ id: pipeline.id }}>
              {pipeline.name}
            </Link>
          </li>
        ))}
      </ul>
    </section>
  )
}

function DeleteConnection({ kind, id, name }: { kind: ConnectorKind; id: string; name: string }) {
  const may = useMay('connectors:write')
  const uses = useQuery(usesQuery(kind, id))
  const [asking, setAsking] = useState(false)
  const navigate = useNavigate()
  const queries = useQueryClient()
  const remove = useMutation({
    mutationFn: () => deleteConnector(kind, id),
    onSuccess: async () => {
      await navigate({ to: '/connections', search: { kind } })
      await queries.invalidateQueries({ queryKey: ['saved', kind], exact: true })
    },
  })
  if (!may) return null
  const count = uses.data?.length ?? 0
  return (
    <>
      <Button look="danger" onClick={() => setAsking(true)}>
        Delete…
      </Button>
      {asking && (
        <Confirm
          title={`Delete ${name}?`}
          action="Delete the connection"
          locked={count > 0}
          onConfirm={() => remove.mutate()}
          onClose={() => setAsking(false)}
          busy={remove.isPending}
          error={remove.error}
        >
          {count === 0 ? (
            <p>Its settings and secrets are deleted. No pipeline uses it.</p>
          ) : (
            <p>
              {count === 1 ? 'One pipeline uses it' : `${count} pipelines use it`}, such as “{uses.data![0]!.name}”, and
              would fail. Change {count === 1 ? 'that one' : 'those'} first.
            </p>
          )}
        </Confirm>
      )}
    </>
  )
}

/** Never while a pipeline uses it: one may have been created since the page was loaded. */
function deleteConnector(kind: ConnectorKind, id: string) {
  const params = { path: { id }, query: { if_unused: true } }
  return kind === 'source'
    ? api.DELETE('/api/saved/sources/{id}', { params })
    : api.DELETE('/api/saved/destinations/{id}', { params })
}
