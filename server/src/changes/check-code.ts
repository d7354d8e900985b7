/** Validates the code of the sources that a request creates or changes. */
import type { ValidationResult } from '../cell/validate.ts'
import { type CellServices, validateSource } from '../connections/custom-sources.ts'
import { type ManifestValidation, validateManifest } from '../connections/manifests.ts'
import { isObject } from '../connectors/settings/settings.ts'
import type { Actor } from '../tenancy/actor.ts'
import { can } from '../tenancy/permissions.ts'
import type { Doubtful } from './diagnose.ts'
import { type Failed, failedSource } from './failed.ts'
import type { Step } from './plan.ts'
import { type Problem, pointerTo, problemsOf } from './problems.ts'
import type { DesiredObjects, DesiredSource } from './shape.ts'

export interface Checked {
  /** By their index in the request. */
  checked: Map<number, ValidationResult | ManifestValidation>
  failed: Failed
  problems: Problem[]
}

const MAX_ERRORS = 20

/** Before the transaction: a connection should not wait for a tenant's code. */
export async function checkCode(
  services: CellServices,
  actor: Actor,
  { steps, desired, malformed }: { steps: readonly Step[]; desired: DesiredObjects; malformed: readonly Doubtful[] },
  signal: AbortSignal,
): Promise<Checked> {
  const checked: Checked['checked'] = new Map()
  const failed: Failed = new Set()
  const problems: Problem[] = []
  // Reported by the step itself.
  if (!can(actor, 'custom_sources:write')) return { checked, failed, problems }
  const changed = steps.flatMap(({ kind, action, index, fields }) =>
    kind === 'sources' && index !== null && (action !== 'change' || fields.some(({ path }) => path === 'code'))
      ? [{ index, object: desired.sources[index] as unknown }]
      : [],
  )
  for (const { index, object } of [...changed, ...malformed.filter(({ kind }) => kind === 'sources')]) {
    const { code, language, source_name } = (isObject(object) ? object : {}) as Partial<DesiredSource>
    if (typeof code !== 'string' || typeof source_name !== 'string') continue
    const at = ['objects', 'sources', index, 'code']
    try {
      const result =
        language === 'manifest'
          ? await validateManifest(services, actor, code, signal)
          : await validateSource(services, actor, { code, source_name }, signal)
      checked.set(index, result)
      if (result.valid) continue
      for (const { line, column, message } of result.errors.slice(0, MAX_ERRORS))
        problems.push({ pointer: pointerTo(...at), message, line, column })
    } catch (error) {
      problems.push(...problemsOf(error, {}, at))
    }
    failed.add(failedSource(source_name))
  }
  return { checked, failed, problems }
}
