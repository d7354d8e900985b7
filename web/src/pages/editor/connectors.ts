/** The connectors that a draft refers to, out of the catalogue and the saved ones. */
import authenticationSchemas from 'virtual:authentication-schemas'
import type { Schemas } from '../../api/client.ts'
import type { Connector } from '../../api/queries.ts'
import { labelOf, type Schema } from '../../components/schema-form/schema.ts'
import type { Side } from './draft.ts'
import { type Fields, getIn, isObject } from './fields.ts'
import type { SideSchemas } from './secrets.ts'

type Saved = Schemas['SavedConnector']

export interface Known {
  catalogue: Record<Side, Connector[]>
  saved: Record<Side, Saved[]>
}

export function savedOf({ saved }: Known, side: Side, endpoint: Fields | null): Saved | undefined {
  return saved[side].find(({ id }) => id === endpoint?.saved_connector_id)
}

export function connectorOf(known: Known, side: Side, endpoint: Fields | null): Connector | undefined {
  const name = savedOf(known, side, endpoint)?.connector_name ?? endpoint?.name
  return known.catalogue[side].find((connector) => connector.name === name)
}

/** What a person calls it, or null if none is chosen. */
export function titleOf(known: Known, side: Side, endpoint: Fields | null): string | null {
  if (endpoint === null) return null
  const saved = savedOf(known, side, endpoint)
  if (saved) return saved.name
  if (endpoint.saved_connector_id !== undefined) return 'a saved connection that is gone'
  return connectorOf(known, side, endpoint)?.display_name ?? (typeof endpoint.name === 'string' ? endpoint.name : null)
}

export function settingsOf(connector: Connector | undefined): Schema | undefined {
  return connector?.config_schema as Schema | undefined
}

/** Of the inline sides; a saved connector holds its secrets itself. */
export function schemasOf(known: Known, config: Fields): SideSchemas {
  const source = isObject(config.source) ? config.source : null
  const destination = isObject(config.destination) ? config.destination : null
  const type = getIn(source, ['authentication', 'type'])
  return {
    ...(source?.name !== undefined && {
      source: {
        settings: settingsOf(connectorOf(known, 'source', source)),
        authentication: typeof type === 'string' ? authenticationSchemas[type] : undefined,
      },
    }),
    ...(destination?.name !== undefined && {
      destination: { settings: settingsOf(connectorOf(known, 'destination', destination)) },
    }),
  }
}

/** A part of the settings: those that each pipeline may choose, or those that make up the connection. */
export function partOf(schema: Schema, part: 'own' | 'connection', without: readonly string[] = []): Schema | null {
  const chosen = Object.entries(schema.properties ?? {}).filter(([name, { override, secret }]) => {
    const own = override === true && secret !== true
    return own === (part === 'own') && !without.includes(name)
  })
  if (chosen.length === 0) return null
  const { either, ...rest } = schema
  const properties = Object.fromEntries(chosen)
  const whole = either?.every(({ fields }) => fields.every((name) => Object.hasOwn(properties, name)))
  return { ...rest, properties, ...(either && whole && { either }) }
}

/** The labels of settings that must be given and are not. */
export function missingSettings(schema: Schema | undefined, settings: unknown): string[] {
  const given = isObject(settings) ? settings : {}
  return (schema?.required ?? []).flatMap((name) => {
    const property = schema?.properties?.[name]
    if (!property || property.default !== undefined) return []
    if (given[name] === undefined || given[name] === '') return [labelOf(name, property)]
    return property.type === 'object' ? missingSettings(property, given[name]) : []
  })
}
