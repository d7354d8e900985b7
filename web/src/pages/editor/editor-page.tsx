/** The addresses of the editor: a new pipeline, or a change of one that exists. */
import { useQuery } from '@tanstack/react-query'
import { Link, useParams, useSearch } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { useMay } from '../../api/person.ts'
import { catalogueQuery, pipelineQuery, savedConnectorsQuery } from '../../api/queries.ts'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { PageHead } from '../../components/page-head.tsx'
import type { Known } from './connectors.ts'
import { type Draft, EMPTY_DRAFT } from './draft.ts'
import { PipelineEditor } from './pipeline-editor.tsx'
import { toDraft } from './use-draft.ts'

export function NewPipelinePage() {
  const { source } = useSearch({ from: '/frame/pipelines/new' })
  const may = useMay('pipelines:write')
  const { known, isFetching, error, retry } = useKnown(may)
  if (!may) return <NotAllowed />
  if (error) return <ErrorNotice error={error} onRetry={retry} />
  if (!known) return <Skeleton rows={10} height={48} />
  const isKnown = known.catalogue.source.some(({ name }) => name === source)
  // One that was written a moment ago is not yet in what is cached.
  if (source !== undefined && !isKnown && isFetching) return <Skeleton rows={10} height={48} />
  const stored = isKnown ? { ...EMPTY_DRAFT, config: { source: { name: source } } } : EMPTY_DRAFT
  return (
    <NewPipeline key={isKnown ? source : ''} stored={stored} place={isKnown ? `new.${source}` : 'new'} known={known} />
  )
}

/** The draft that it begins with must stay the same while the page is open. */
function NewPipeline({ stored, place, known }: { stored: Draft; place: string; known: Known }) {
  const [first] = useState(stored)
  return <PipelineEditor pipeline={null} stored={first} place={place} known={known} />
}

export function EditPipelinePage() {
  const { id } = useParams({ from: '/frame/pipelines/$id/edit' })
  // A change by somebody else while this page is open must not replace what is typed here.
  const pipeline = useQuery({ ...pipelineQuery(id), refetchOnWindowFocus: false, refetchOnMount: 'always' })
  const may = useMay('pipelines:write', pipeline.data?.domain_id ?? null)
  const { known, error, retry } = useKnown(may)
  const fresh = pipeline.isFetchedAfterMount ? pipeline.data : undefined
  const stored = useMemo(() => fresh && known && toDraft(fresh, known), [fresh, known])
  if (pipeline.error) return <ErrorNotice error={pipeline.error} onRetry={pipeline.refetch} />
  if (pipeline.data && !may) return <NotAllowed id={id} />
  if (error) return <ErrorNotice error={error} onRetry={retry} />
  if (!fresh || !known || !stored) return <Skeleton rows={10} height={48} />
  return <PipelineEditor key={id} pipeline={fresh} stored={stored} place={id} known={known} />
}

/** Everything that can be chosen. Roles that may not look at connections get an empty list of saved ones. */
function useKnown(enabled: boolean) {
  const options = { enabled, refetchOnWindowFocus: false }
  const sources = useQuery({ ...catalogueQuery('source'), ...options })
  const destinations = useQuery({ ...catalogueQuery('destination'), ...options })
  const savedSources = useQuery({ ...savedConnectorsQuery('source'), ...options })
  const savedDestinations = useQuery({ ...savedConnectorsQuery('destination'), ...options })
  const all = [sources, destinations, savedSources, savedDestinations]
  const known = useMemo(
    (): Known | null =>
      sources.data && destinations.data && savedSources.data && savedDestinations.data
        ? {
            catalogue: { source: sources.data, destination: destinations.data },
            saved: { source: savedSources.data, destination: savedDestinations.data },
          }
        : null,
    [sources.data, destinations.data, savedSources.data, savedDestinations.data],
  )
  return {
    known,
    isFetching: sources.isFetching,
    error: all.find((query) => query.error)?.error ?? null,
    retry: () => {
      for (const query of all) if (query.error) void query.refetch()
    },
  }
}

function NotAllowed({ id }: { id?: string }) {
  return (
    <>
      <PageHead title={id ? 'Edit pipeline' : 'New pipeline'} trail={[['Pipelines', { to: '/pipelines' }]]} />
      <Empty
        title="Your role may not change pipelines"
        action={
          id ? (
            <Link to="/pipelines/$id" params={{ id }}>
              Look at the pipeline
            </Link>
          ) : (
            <Link to="/pipelines">Look at the pipelines</Link>
          )
        }
      >
        Members create and change pipelines. Ask an admin of your organization for that role.
      </Empty>
    </>
  )
}
