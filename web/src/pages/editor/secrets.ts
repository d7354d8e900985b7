/**
 * Secrets in a draft. A stored one is only ever a mask here, and stays as it is on the server until another value is typed.
 * A typed one is sent when the pipeline is saved, tested or previewed, and otherwise shown and kept nowhere.
 */
import { isSecret, MASK, type Schema } from '../../components/schema-form/schema.ts'
import { type Fields, getIn, isObject, isSame, type Path, setIn } from './fields.ts'

/** The schemas of the settings and of the authentication of both sides; absent where they are not known. */
export interface SideSchemas {
  source?: { settings: Schema | undefined; authentication: Schema | undefined }
  destination?: { settings: Schema | undefined }
}

/** The paths in a config under which secrets are. */
export function secretPaths({ source, destination }: SideSchemas): string[][] {
  return [
    ...findSecrets(source?.settings, ['source', 'config']),
    ...findSecrets(source?.authentication, ['source', 'authentication', 'params']),
    ...findSecrets(destination?.settings, ['destination', 'config']),
  ]
}

/**
 * What a draft must not keep: the secrets, and what may be one. A Python source takes any settings and marks none of them as
 * secret, and those of a connector that is gone have no schema.
 */
export function doubtfulPaths({ source, destination }: SideSchemas): string[][] {
  return [
    ...(source ? findSecrets(marked(source.settings), ['source', 'config']) : []),
    ...(source ? findSecrets(marked(source.authentication), ['source', 'authentication', 'params']) : []),
    ...(destination ? findSecrets(marked(destination.settings), ['destination', 'config']) : []),
  ]
}

function marked(schema: Schema | undefined): Schema {
  return schema === undefined || schema.additionalProperties === true ? { secret: true } : schema
}

function findSecrets(schema: Schema | undefined, path: string[]): string[][] {
  if (!schema) return []
  if (isSecret(schema)) return [path]
  const members = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]
  return [
    ...Object.entries(schema.properties ?? {}).flatMap(([name, inner]) => findSecrets(inner, [...path, name])),
    ...members.flatMap((member) => findSecrets(member, path)),
  ]
}

export function maskSecrets(config: Fields, paths: readonly string[][]): Fields {
  return paths.reduce((masked, path) => (isSet(getIn(masked, path)) ? setIn(masked, path, MASK) : masked), config)
}

/**
 * The config without the values at the paths, and whether that leaves out what was typed. Where the pipeline has one stored,
 * a mask stands for it: a secret that was typed anew must not come back as one that was removed.
 */
export function dropSecrets(
  config: Fields,
  paths: readonly string[][],
  stored: Fields,
): { config: Fields; dropped: boolean } {
  let dropped = false
  const kept = paths.reduce((rest, path) => {
    const value = getIn(rest, path)
    if (!isSet(value) || value === MASK) return rest
    const before = isSame(getIn(stored, [path[0]!, 'name']), getIn(config, [path[0]!, 'name']))
      ? getIn(stored, path)
      : undefined
    dropped ||= !isSame(value, before)
    return setIn(rest, path, isSet(before) ? MASK : undefined)
  }, config)
  return { config: kept, dropped }
}

/** What was written, with each mask replaced by what the config has at the same place. */
export function restoreMasks(written: unknown, config: unknown, path: Path = []): unknown {
  if (written === MASK) return getIn(config, path) ?? MASK
  if (Array.isArray(written)) return written.map((item, index) => restoreMasks(item, config, [...path, index]))
  if (!isObject(written)) return written
  return Object.fromEntries(
    Object.entries(written).map(([name, value]) => [name, restoreMasks(value, config, [...path, name])]),
  )
}

const isSet = (value: unknown): boolean => value !== undefined && value !== null && value !== ''
