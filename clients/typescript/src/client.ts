/**
 * A typed client of the API: `openapi-fetch` with the types of the OpenAPI document.
 *
 *     const sluice = createClient({ url: 'https://sluice.example.com', apiKey: process.env.SLUICE_API_KEY })
 *     const { data, error } = await sluice.POST('/api/pipelines/{id}/run', { params: { path: { id } } })
 */
import createFetchClient, { type Client } from 'openapi-fetch'
import type { components, paths } from './schema.d.ts'

/** The named schemas: `Schemas['Pipeline']`, `Schemas['Run']` … */
export type Schemas = components['schemas']

export interface Access {
  /** Where the service is, without `/api`. */
  url: string
  accessToken?: string | undefined
  apiKey?: string | undefined
}

export function createClient({ url, accessToken, apiKey }: Access): Client<paths> {
  return createFetchClient<paths>({
    baseUrl: url,
    headers: {
      ...(accessToken !== undefined && { Authorization: `Bearer ${accessToken}` }),
      ...(apiKey !== undefined && { 'X-API-Key': apiKey }),
    },
  })
}
