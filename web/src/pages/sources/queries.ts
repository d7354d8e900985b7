import { queryOptions } from '@tanstack/react-query'
import { answer, api } from '../../api/client.ts'
import { type AuthoredItem, readSource, type SourceLanguage } from './authored.ts'

/** Both kinds in one list, the last changed first. */
export const sourcesQuery = queryOptions({
  queryKey: ['sources'],
  queryFn: async ({ signal }): Promise<AuthoredItem[]> => {
    const [python, manifests] = await Promise.all([
      answer(api.GET('/api/custom-sources', { signal })),
      answer(api.GET('/api/manifests', { signal })),
    ])
    return [
      ...python.map((item) => ({ ...item, language: 'python' as const })),
      ...manifests.map((item) => ({ ...item, language: 'yaml' as const })),
    ].sort((a, b) => (a.changed_at < b.changed_at ? 1 : -1))
  },
})

export function sourceQuery(language: SourceLanguage, id: string) {
  return queryOptions({ queryKey: ['sources', language, id], queryFn: () => readSource(language, id) })
}

export function versionsQuery(language: SourceLanguage, id: string) {
  const params = { path: { id } }
  return queryOptions({
    queryKey: ['sources', language, id, 'versions'],
    queryFn: () =>
      language === 'python'
        ? answer(api.GET('/api/custom-sources/{id}/versions', { params }))
        : answer(api.GET('/api/manifests/{id}/versions', { params })),
  })
}

/** The text of one version, which never changes. */
export function versionQuery(language: SourceLanguage, id: string, version: number) {
  const params = { path: { id, version } }
  return queryOptions({
    queryKey: ['sources', language, id, 'versions', version],
    queryFn: async () => {
      if (language === 'python')
        return (await answer(api.GET('/api/custom-sources/{id}/versions/{version}', { params }))).code
      return (await answer(api.GET('/api/manifests/{id}/versions/{version}', { params }))).manifest
    },
    staleTime: Number.POSITIVE_INFINITY,
  })
}

export function sourceUsesQuery(language: SourceLanguage, id: string) {
  const params = { path: { id }, query: { limit: 200 } }
  return queryOptions({
    queryKey: ['sources', language, id, 'pipelines'],
    queryFn: () =>
      language === 'python'
        ? answer(api.GET('/api/custom-sources/{id}/pipelines', { params }))
        : answer(api.GET('/api/manifests/{id}/pipelines', { params })),
  })
}
