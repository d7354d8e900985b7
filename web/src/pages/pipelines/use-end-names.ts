/** What people call the two ends of a pipeline: the name of a saved connection, else that of the connector. */
import { useQuery } from '@tanstack/react-query'
import { useCallback, useMemo } from 'react'
import { type ConnectorKind, catalogueQuery, savedConnectorsQuery } from '../../api/queries.ts'

interface End {
  kind: ConnectorKind
  savedId: string | null
  connector: string | null
}

export type EndNames = (end: End) => string

export function useEndNames(): EndNames {
  const saved = {
    source: useNames(useQuery(savedConnectorsQuery('source')).data, idOf, nameOf),
    destination: useNames(useQuery(savedConnectorsQuery('destination')).data, idOf, nameOf),
  }
  const connectors = {
    source: useNames(useQuery(catalogueQuery('source')).data, nameOf, displayNameOf),
    destination: useNames(useQuery(catalogueQuery('destination')).data, nameOf, displayNameOf),
  }
  const { source: savedSources, destination: savedDestinations } = saved
  const { source: sources, destination: destinations } = connectors
  return useCallback(
    ({ kind, savedId, connector }: End) => {
      const ofSaved = kind === 'source' ? savedSources : savedDestinations
      const ofConnector = kind === 'source' ? sources : destinations
      return ofSaved.get(savedId ?? '') ?? ofConnector.get(connector ?? '') ?? connector ?? '–'
    },
    [savedSources, savedDestinations, sources, destinations],
  )
}

const idOf = ({ id }: { id: string }): string => id
const nameOf = ({ name }: { name: string }): string => name
const displayNameOf = ({ display_name }: { display_name: string }): string => display_name

function useNames<Item>(
  items: readonly Item[] | undefined,
  keyOf: (item: Item) => string,
  wordsOf: (item: Item) => string,
): ReadonlyMap<string, string> {
  return useMemo(() => new Map(items?.map((item) => [keyOf(item), wordsOf(item)])), [items, keyOf, wordsOf])
}
