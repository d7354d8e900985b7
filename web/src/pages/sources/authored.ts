/** A source that people write: Python, or the YAML of a manifest. The API has routes for each; here they are one thing. */
import { answer, api, type Schemas } from '../../api/client.ts'
import type { Schema, Settings } from '../../components/schema-form/schema.ts'

export type SourceLanguage = 'python' | 'yaml'

export interface AuthoredSource {
  id: string
  language: SourceLanguage
  name: string
  source_name: string
  description: string | null
  code: string
  streams: string[]
  created_at: string
  updated_at: string | null
}

export interface AuthoredItem extends Omit<Schemas['CustomSourceListItem'], 'code'> {
  language: SourceLanguage
}

export type Finding = Schemas['Finding']

export interface Validation {
  valid: boolean
  /** Errors first. */
  findings: Finding[]
  streams: string[]
  /** The name that the code gives itself. */
  source_name: string | null
  /** Of what the last valid text asks for; null where the text is not valid. */
  settings: Schema | null
  auth_type: string | null
  /** For completion after `self.config.` */
  config_fields: string[]
}

/** What the person gives for a try. Nothing of it is saved. */
export interface Trial {
  language: SourceLanguage
  code: string
  stream: string
  config: Settings
  authentication: { type: string; params: Settings } | undefined
}

export async function readSource(language: SourceLanguage, id: string): Promise<AuthoredSource> {
  const params = { path: { id } }
  if (language === 'python') {
    const source = await answer(api.GET('/api/custom-sources/{id}', { params }))
    return { ...source, language }
  }
  const { manifest, ...source } = await answer(api.GET('/api/manifests/{id}', { params }))
  return { ...source, language, code: manifest }
}

export interface SourceInput {
  name: string
  source_name: string
  description: string | null
  code: string
}

export async function saveSource(
  language: SourceLanguage,
  id: string | null,
  { name, source_name, description, code }: SourceInput,
): Promise<{ id: string }> {
  const shared = { name, description }
  if (language === 'python')
    return id === null
      ? answer(api.POST('/api/custom-sources', { body: { ...shared, source_name, code } }))
      : answer(api.PUT('/api/custom-sources/{id}', { params: { path: { id } }, body: { ...shared, code } }))
  return id === null
    ? answer(api.POST('/api/manifests', { body: { ...shared, source_name, manifest: code } }))
    : answer(api.PUT('/api/manifests/{id}', { params: { path: { id } }, body: { ...shared, manifest: code } }))
}

export async function deleteSource(language: SourceLanguage, id: string): Promise<void> {
  const params = { path: { id } }
  if (language === 'python') await api.DELETE('/api/custom-sources/{id}', { params })
  else await api.DELETE('/api/manifests/{id}', { params })
}

export async function validateCode(language: SourceLanguage, code: string, signal: AbortSignal): Promise<Validation> {
  if (language === 'python') {
    const found = await answer(api.POST('/api/custom-sources/validate', { body: { code }, signal }))
    return {
      valid: found.valid,
      findings: [...found.errors, ...found.warnings],
      streams: found.extracted_streams ?? [],
      source_name: found.extracted_source_name,
      settings: found.settings_schema as Schema | null,
      auth_type: found.extracted_schema.auth_type,
      config_fields: found.extracted_schema.config_fields.map(({ name }) => name),
    }
  }
  const found = await answer(api.POST('/api/manifests/validate', { body: { manifest: code }, signal }))
  return {
    valid: found.valid,
    findings: [...found.errors, ...found.warnings],
    streams: found.extracted_streams ?? [],
    source_name: null,
    settings: found.settings_schema as Schema | null,
    auth_type: null,
    config_fields: [],
  }
}

/** Tests the connection with the text as it stands; nothing is saved. */
export function checkSource(id: string, { language, code, config, authentication }: Trial) {
  if (language === 'yaml')
    return answer(
      api.POST('/api/connectors/check', {
        body: { source: { name: 'manifest', config: { manifest: code, settings: config } } },
      }),
    )
  return answer(
    api.POST('/api/custom-sources/{id}/check', {
      params: { path: { id } },
      body: { code, config, authentication: authentication ?? null },
    }),
  )
}
