import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { catalogueQuery } from '../../api/queries.ts'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { PageHead } from '../../components/page-head.tsx'
import { ConnectionForm } from './connection-form.tsx'

export function NewConnectionPage() {
  const { kind = 'source', connector: name } = useSearch({ from: '/frame/connections/new' })
  const catalogue = useQuery(catalogueQuery(kind))
  const connector = catalogue.data?.find((candidate) => candidate.name === name)
  if (catalogue.isPending) return <Skeleton rows={8} />
  if (!catalogue.data) return <ErrorNotice error={catalogue.error} onRetry={catalogue.refetch} />
  if (!connector)
    return (
      <Empty title="There is no such connector" action={<Link to="/connections">Choose one from the catalogue</Link>} />
    )
  return (
    <>
      <PageHead
        title={`New ${connector.display_name} ${kind}`}
        trail={[['Connections', { to: '/connections', search: { kind } }]]}
        lead={connector.description}
      />
      <ConnectionForm key={connector.name} kind={kind} connector={connector} stored={null} />
    </>
  )
}
