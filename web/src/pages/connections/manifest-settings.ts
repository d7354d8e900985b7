import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { answer, api } from '../../api/client.ts'
import type { Connector } from '../../api/queries.ts'
import { MASK, type Schema, type Settings } from '../../components/schema-form/schema.ts'
import { useSettled } from '../editor/use-settled.ts'

/**
 * The settings of a connector. Those of a manifest depend on what is typed: its own specification says what else it asks
 * for, and the form asks for that instead of JSON.
 */
export function useSettingsSchema(connector: Connector, config: Settings): Schema {
  const schema = connector.config_schema as Schema
  const typed = connector.name === 'manifest' && typeof config.manifest === 'string' ? config.manifest : ''
  const manifest = useSettled(typed, 400)
  const { data: asked } = useQuery({
    queryKey: ['manifest-settings', manifest],
    queryFn: async ({ signal }) =>
      (await answer(api.POST('/api/manifests/validate', { body: { manifest }, signal })))
        .settings_schema as Schema | null,
    enabled: manifest !== '' && manifest !== MASK,
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  })
  if (typed === '' || !asked?.properties) return schema
  return {
    ...schema,
    // Shown at once: without them most manifests read nothing.
    required: [...(schema.required ?? []), 'settings'],
    properties: { ...schema.properties, settings: { ...asked, title: 'Settings', secret: true } },
  }
}
