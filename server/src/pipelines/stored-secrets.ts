/** Masks in a config that was read and changed, replaced by the secrets that the pipeline has stored. */
import { refuse } from '../connections/faults.ts'
import { requireKeptInPlace, type SecretRules } from '../connections/kept-secrets.ts'
import { restoreMasks } from '../connections/masks.ts'
import { MASK } from '../connectors/settings/secrets.ts'
import { isObject } from '../connectors/settings/settings.ts'
import type { PipelineConfig } from './config-shape.ts'

const SIDES = ['source', 'destination'] as const

/** `prefix` is the path of the config in the request, with its final dot: '' for a probe of one side. */
export function restoreStored<T>(given: T, stored: PipelineConfig, rules: SecretRules, prefix: 'config.' | ''): T {
  refuseMaskedNames(given, prefix)
  for (const kind of SIDES) {
    const incoming = isObject(given) ? given[kind] : given
    if (incoming === undefined) continue
    const side = { kind, connector_name: stored[kind].name }
    requireKeptInPlace(rules, side, { incoming, stored: stored[kind], path: `${prefix}${kind}` })
  }
  if (prefix === 'config.' || !isObject(given)) return restoreMasks(given, stored, 'config')
  const sides = SIDES.filter((kind) => given[kind] !== undefined).map((kind) => [
    kind,
    restoreMasks(given[kind], stored[kind], kind),
  ])
  return { ...given, ...Object.fromEntries(sides) }
}

/** What these refer to was looked up, with the caller's permissions, before masks are replaced by what is stored. */
function refuseMaskedNames(given: unknown, prefix: string): void {
  const masked = SIDES.flatMap((kind) => {
    const side = isObject(given) && isObject(given[kind]) ? given[kind] : {}
    return ['name', 'stream', 'saved_connector_id']
      .filter((field) => side[field] === MASK)
      .map((field) => `${kind}.${field}`)
  })
  if (masked.length > 0) throw refuse(masked.map((field) => `${prefix}${field}: cannot be masked; only secrets can`))
}
