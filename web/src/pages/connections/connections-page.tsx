import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useMay } from '../../api/person.ts'
import { type ConnectorKind, catalogueQuery, savedConnectorsQuery } from '../../api/queries.ts'
import { Field } from '../../components/field.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { PageHead } from '../../components/page-head.tsx'
import { Time } from '../../components/quantities.tsx'
import table from '../../components/table.module.css'
import { Tabs } from '../../components/tabs.tsx'
import styles from './connections.module.css'

const KINDS = [
  ['source', 'Sources'],
  ['destination', 'Destinations'],
] as const

/** Saved connectors, and below them the catalogue of what can be connected. */
export function ConnectionsPage() {
  const { kind = 'source' } = useSearch({ from: '/frame/connections' })
  return (
    <>
      <PageHead
        title="Connections"
        lead="A saved connection is set up and tested once, and used by any number of pipelines."
      />
      <Tabs
        label="Kind"
        value={kind}
        options={KINDS}
        link={(value) => ({ to: '/connections', search: value === 'source' ? {} : { kind: value } })}
      />
      <Saved kind={kind} />
      <Catalogue kind={kind} key={kind} />
    </>
  )
}

function Saved({ kind }: { kind: ConnectorKind }) {
  const saved = useQuery(savedConnectorsQuery(kind))
  const { data: catalogue } = useQuery(catalogueQuery(kind))
  if (saved.isPending) return <Skeleton rows={3} />
  if (!saved.data) return <ErrorNotice error={saved.error} onRetry={saved.refetch} />
  if (saved.data.length === 0)
    return <p className="faint">No saved {kind} yet. Choose a connector below to set one up.</p>
  const titleOf = (name: string) => catalogue?.find((connector) => connector.name === name)?.display_name ?? name
  return (
    <table className={table.table}>
      <thead>
        <tr>
          <th>Name</th>
          <th>Connector</th>
          <th className={table.wide}>Description</th>
          <th className={`${table.fit} ${table.end}`}>Created</th>
        </tr>
      </thead>
      <tbody>
        {saved.data.map((connector) => (
          <tr key={connector.id}>
            <td title={connector.name}>
              <Link to="/connections/$kind/$id" params={{ kind, id: connector.id }} className={table.name}>
                {connector.name}
              </Link>
            </td>
            <td className="soft">{titleOf(connector.connector_name)}</td>
            <td className={`${table.wide} soft`} title={connector.description ?? undefined}>
              {connector.description}
            </td>
            <td className={`${table.fit} ${table.end} soft`}>
              <Time at={connector.created_at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Catalogue({ kind }: { kind: ConnectorKind }) {
  const catalogue = useQuery(catalogueQuery(kind))
  const may = useMay('connectors:write')
  const search = useSearch({ from: '/frame/connections' })
  const navigate = useNavigate()
  const wanted = search.find ?? ''
  const found = catalogue.data?.filter(({ name, display_name, description }) =>
    `${name} ${display_name} ${description}`.toLowerCase().includes(wanted.trim().toLowerCase()),
  )
  const find = (text: string) =>
    navigate({ to: '/connections', search: { ...search, find: text || undefined }, replace: true, resetScroll: false })
  return (
    <section className={styles.catalogue} aria-labelledby="catalogue">
      <h2 id="catalogue">{kind === 'source' ? 'Read from' : 'Write to'}</h2>
      {!may && <p className="soft">Your role may look at connections; a member’s may also set them up.</p>}
      <Field
        label="Find a connector"
        type="search"
        value={wanted}
        onChange={(event) => find(event.target.value)}
        className={styles.find!}
      />
      {catalogue.isPending && <Skeleton rows={4} height={56} />}
      <ErrorNotice error={catalogue.error} onRetry={catalogue.refetch} />
      {found?.length === 0 && <p className="faint">No connector matches. A Python source can read anything else.</p>}
      <ul className={styles.connectors}>
        {found?.map(({ name, display_name, description }) => (
          <li key={name}>
            {may ? (
              <Link to="/connections/new" search={{ kind, connector: name }}>
                {display_name}
              </Link>
            ) : (
              <span>{display_name}</span>
            )}
            <p className="soft">{description}</p>
          </li>
        ))}
      </ul>
    </section>
  )
}
