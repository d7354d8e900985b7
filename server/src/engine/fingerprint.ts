/**
 * What a cursor belongs to: one source, stream, cursor field and destination. A pipeline's state, its kept columns and the
 * points in its marks carry this fingerprint. Where it is not the one of the run, the cursor is none: the rows before it
 * were never read from this source, or never written to this destination.
 *
 * Only settings that a connector marks `identity` count, in their canonical form and with defaults applied, so the same
 * place written in another way is no change. Secrets, versions of code and everything that only changes how data is moved
 * are left out. Connectors are compared by a hash: the fingerprint is kept in plain text, also in tenants' databases.
 *
 * The settings of a custom source have no marks. One may be the account, another the last day to read, which moves with
 * every run. So they do not make a pipeline start over, but a change is reported. One may be a secret too, under any name,
 * so their hash is keyed: whoever reads a mark cannot test guesses.
 */
import { createHash } from 'node:crypto'
import type { Destination, Source } from '../connectors/contract.ts'
import { findDestination, findSource } from '../connectors/registry.ts'
import { identitySettings, withoutSecrets } from '../connectors/settings/identity.ts'
import { applyDefaults, isObject } from '../connectors/settings/settings.ts'
import type { Json } from '../json/json.ts'

/** Increase it with every change to what is hashed; otherwise an upgrade would make all pipelines start over. */
const VERSION = 1

export interface Fingerprint {
  v: number
  source: string
  stream: string
  cursor_field: string | null
  destination: string
  /** Of a custom source: the id of a key, a dot, and the hash of its settings with that key. A change is only reported. */
  settings?: string
}

/** A keyed hash, with the id of its key in front. */
export type HashSettings = (text: string) => string

const PARTS = ['source', 'stream', 'cursor_field', 'destination'] as const
export type Change = (typeof PARTS)[number]

/** A config as a run uses it: saved connectors opened, overrides applied. */
export interface Identifiable {
  source: { name: string; stream: string; config: object; custom?: object }
  destination: { name: string; config: object }
  sync: { cursor_field: string | null }
}

/** Without `hashSettings` the settings of a custom source are left out. */
export function fingerprintOf(
  { source, destination, sync }: Identifiable,
  hashSettings: HashSettings | null,
): Fingerprint {
  const { name, stream } = source
  // A custom source that was deleted and created again under the same name is a different one.
  const id = source.custom && 'id' in source.custom ? source.custom.id : null
  const builtIn = source.custom ? undefined : findSource(name)
  return {
    v: VERSION,
    source: digest([name, id, identify(builtIn, source.config, stream)]),
    stream,
    cursor_field: sync.cursor_field,
    destination: digest([destination.name, identify(findDestination(destination.name), destination.config, stream)]),
    ...(source.custom && hashSettings && { settings: hashSettings(spell(withoutSecrets(source.config))) }),
  }
}

function identify(connector: Source | Destination | undefined, given: object, stream: string): object {
  if (!connector) return {}
  const config = applyDefaults(connector.settings, given)
  return identitySettings(connector.settings, canonicalOf(connector, config, stream))
}

/** Invalid settings fail the run, with a reason there. */
function canonicalOf(connector: Source | Destination, config: Record<string, unknown>, stream: string) {
  try {
    return connector.canonical?.(config, stream) ?? config
  } catch {
    return config
  }
}

const digest = (value: unknown): string => createHash('sha256').update(spell(value)).digest('base64url').slice(0, 22)

/** The same text for the same value. */
const spell = (value: unknown): string => JSON.stringify(sortKeys(value))

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (!isObject(value)) return value
  const names = Object.keys(value).filter((name) => value[name] !== undefined)
  return names.sort().map((name) => [name, sortKeys(value[name])])
}

/**
 * What is different now. Nothing where no fingerprint was kept, or one of another version: then the present one is adopted,
 * because starting over without a reason would load rows twice.
 */
export function findChanges(kept: Fingerprint | null, now: Fingerprint): Change[] {
  if (kept?.v !== now.v) return []
  return PARTS.filter((part) => kept[part] !== now[part])
}

/** As it comes back from a row or from a destination, which may say anything. */
export function readFingerprint(value: Json | undefined): Fingerprint | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null
  const { v, source, stream, cursor_field, destination, settings } = value
  if (typeof v !== 'number' || typeof source !== 'string' || typeof stream !== 'string') return null
  if (typeof destination !== 'string' || (cursor_field !== null && typeof cursor_field !== 'string')) return null
  return { v, source, stream, cursor_field, destination, ...(typeof settings === 'string' && { settings }) }
}

/**
 * Whether a custom source has other settings than the run that left the cursor. Unknown, so not reported, if they were
 * hashed with another key, or by an earlier release with none.
 */
export function hasOtherSettings(kept: Fingerprint | null, now: Fingerprint): boolean {
  if (kept?.v !== now.v || kept.settings === undefined || now.settings === undefined) return false
  const keyOf = (settings: string) => settings.slice(0, settings.indexOf('.') + 1)
  return keyOf(kept.settings) === keyOf(now.settings) && kept.settings !== now.settings
}

export const OTHER_SETTINGS =
  'The settings of the source changed, and the next run continues from the cursor of the last one. If they mean other data, delete the state of the pipeline.'

/** Begins a sentence: "The source and the stream changed". */
export function describeChanges(changes: readonly Change[]): string {
  const names = changes.map((change) => `the ${change.replace('_', ' ')}`)
  const list = names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
  return `${list.charAt(0).toUpperCase()}${list.slice(1)} changed`
}

/** What starting over means for rows that the destination already has, or null if it does not affect them. */
export function describeOldRows(
  changes: readonly Change[],
  write: string,
  { capabilities, buildOutput }: Pick<Destination, 'capabilities' | 'buildOutput'>,
): { sentence: string; twice: boolean } | null {
  if (changes.includes('destination') || (capabilities.commits === 'output' && !buildOutput)) return null
  if (write === 'append')
    return {
      sentence: 'It appends to the same target, so rows that are already there will be duplicated.',
      twice: true,
    }
  if (write !== 'upsert') return null
  const sentence = 'Rows with the same primary key are updated, so none will be duplicated; other old rows stay.'
  return { sentence, twice: false }
}
