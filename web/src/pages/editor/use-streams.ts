/** The streams of the chosen source and their descriptions, as far as the source may be asked. */
import { useMutation, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { answer, api } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { connectorOf, missingSettings, settingsOf } from './connectors.ts'
import { sideOf } from './draft.ts'
import type { Editor } from './editor.ts'
import type { Fields } from './fields.ts'
import { descriptionsQuery, type Probe, type StreamDescription, streamsQuery } from './queries.ts'
import { useSettled } from './use-settled.ts'

export type DescribedColumn = NonNullable<StreamDescription['columns']>[number]

interface Source {
  probe: Probe
  /** Names that are known without asking. */
  fixed: string[] | null
  ask: boolean
}

/** A source is asked once its settings are complete: at once where none are needed, otherwise when the person tests it. */
function useSource({ draft, known, pipelineId, listed }: Editor): Source {
  const may = useMay('connectors:write')
  const { stream: _, ...now } = sideOf(draft, 'source') ?? {}
  // Typing a setting must not ask with every key.
  const text = useSettled(JSON.stringify(now), 400)
  return useMemo(() => {
    const source: Fields = JSON.parse(text)
    const connector = connectorOf(known, 'source', source)
    const fixed =
      connector && 'stream_count' in connector && connector.stream_count === connector.streams.length
        ? connector.streams
        : null
    const saved = source.saved_connector_id !== undefined
    const missing = missingSettings(settingsOf(connector), source.config)
    const wanted = saved || fixed !== null || listed === text
    const complete = saved || (connector !== undefined && missing.length === 0)
    return { probe: { source, pipelineId }, fixed, ask: may && complete && wanted }
  }, [text, known, pipelineId, listed, may])
}

export function useStreams(editor: Editor) {
  const { probe, fixed, ask } = useSource(editor)
  const list = useQuery({ ...streamsQuery(probe), enabled: ask && fixed === null })
  const names = fixed ?? (list.data?.success ? list.data.streams : null)
  const described = useQuery({ ...descriptionsQuery(probe, null), enabled: ask && names !== null && names.length > 0 })
  return {
    names,
    loading: list.isFetching,
    problem: list.data && !list.data.success ? list.data.message : null,
    error: list.error,
    descriptions: new Map((described.data?.descriptions ?? []).map((found) => [found.stream, found])),
  }
}

/** Of one stream, if there is one. Where it names no columns, a few records can be read to find them. */
export function useDescription(editor: Editor, stream: string | null) {
  const { probe, ask: allowed } = useSource(editor)
  const ask = allowed && stream !== null
  const first = useQuery({ ...descriptionsQuery(probe, null), enabled: ask })
  const among = first.data?.descriptions?.find((found) => found.stream === stream)
  const alone = useQuery({ ...descriptionsQuery(probe, stream), enabled: ask && !first.isFetching && !among })
  const description = among ?? alone.data?.descriptions?.find((found) => found.stream === stream)
  const read = useMutation({
    mutationFn: async (from: Probe) => {
      const config = { source: { ...from.source, stream }, destination: { name: 'file' as const } }
      const body = { config, ...(from.pipelineId !== null && { pipeline_id: from.pipelineId }) }
      const { success, error, columns } = await answer(api.POST('/api/pipelines/preview', { body: body as never }))
      if (!success) throw new Error(error ?? 'The source could not be read')
      return columns.map((column): DescribedColumn => ({ ...column, nullable: null }))
    },
  })
  return {
    description,
    loading: ask && !description && (first.isFetching || alone.isFetching),
    sampled: read.data ?? null,
    read: () => read.mutate(probe),
    reading: read.isPending,
    error: read.error,
  }
}
