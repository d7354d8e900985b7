/** Saved connectors: the settings and credentials of a source or a destination under a name, for many pipelines to use. */
import { randomUUID } from 'node:crypto'
import { findAuthenticationFaults } from '../connectors/authentication/authentication.ts'
import { findDestination, findSource } from '../connectors/registry.ts'
import { findSettingsFaults, isObject, type Node } from '../connectors/settings/settings.ts'
import { type Queryable, type Statement, sql, type Transactions } from '../database/database.ts'
import { type Listed, type Paging, readList } from '../database/lists.ts'
import { type SecretBox, SecretLost } from '../database/secret-box.ts'
import { AppError, notFound } from '../errors.ts'
import type { Json } from '../json/json.ts'
import type { TObject } from '../schema.ts'
import { type Actor, requirePermission } from '../tenancy/actor.ts'
import { audit, auditStatement, fieldsOf } from '../tenancy/audit.ts'
import { can } from '../tenancy/permissions.ts'
import { findSizeFault } from './config-size.ts'
import { findConfigFaults, unknownConnector } from './endpoint-faults.ts'
import { type SavedSourceConfig, savedSourceFrame } from './endpoint-shape.ts'
import { refuse } from './faults.ts'
import { requireKeptInPlace, type SecretRules } from './kept-secrets.ts'
import { hasMask, maskDestinationConfig, maskSourceConfig, restoreMasks } from './masks.ts'
import { findTraits, loadReferences, outputsOf, placeOfSaved } from './references.ts'
import { keepNewerToken } from './superseded-tokens.ts'
import { holdReferences, refersToRows, requireUnused } from './uses.ts'

export type ConnectorType = 'source' | 'destination'
/** Which saved connector: the id of a source is not that of a destination. */
interface SavedConnectorKey {
  type: ConnectorType
  id: string
}

export type SavedConfig = Record<string, Json>

export interface SavedConnector {
  id: string
  name: string
  type: ConnectorType
  connector_name: string
  description: string | null
  created_at: string
}

export interface SavedConnectorInput {
  name: string
  connector_name: string
  config: unknown
  description?: string | null
}

interface Stores {
  db: Transactions
  box: SecretBox
  /** The configuration of the service. */
  config: SecretRules
}

const columns = sql`id, name, type, connector_name, description, created_at`

export function listSavedConnectors(
  db: Queryable,
  actor: Actor,
  type: ConnectorType,
  page: Paging,
): Promise<Listed<SavedConnector>> {
  const matching = sql`FROM saved_connectors WHERE organization_id = ${actor.organization_id} AND type = ${type}`
  return readList(db, page, sql`SELECT ${columns} ${matching} ORDER BY created_at DESC, id`, sql`SELECT 1 ${matching}`)
}

/**
 * With its config; secrets are masked for callers without write permission, or for everyone if the operator configured
 * that.
 */
export async function readSavedConnector(
  { db, box, config: rules }: Stores,
  actor: Actor,
  { type, id }: SavedConnectorKey,
): Promise<SavedConnector & { config: SavedConfig }> {
  const row = await db.first<SavedConnector & { config_box: Buffer }>(sql`
    SELECT ${columns}, config_box FROM saved_connectors WHERE organization_id = ${actor.organization_id} AND type = ${type} AND id = ${id}`)
  if (!row) throw notFound(`Saved ${type}`)
  const { config_box, ...connector } = row
  const config = openConfig(box, { ...row, organization_id: actor.organization_id }, config_box)
  if (rules.SECRETS === 'readable' && can(actor, 'connectors:write')) return { ...connector, config }
  const masked =
    type === 'source'
      ? maskSourceConfig(row.connector_name, config as SavedSourceConfig)
      : maskDestinationConfig(row.connector_name, config)
  return { ...connector, config: masked as SavedConfig }
}

/** With an `id` it takes the place of one that was deleted in the same transaction: what refers to that uses the new one. */
export async function createSavedConnector(
  { db, box }: Stores,
  actor: Actor,
  type: ConnectorType,
  { id = randomUUID(), ...input }: SavedConnectorInput & { id?: string },
): Promise<SavedConnector> {
  const config = restoreMasks(input.config, undefined, 'config')
  const wanted = { source_id: null, source_name: type === 'source' ? input.connector_name : null, destination_id: null }
  const create = async (tx: Queryable) => {
    await holdReferences(tx, actor.organization_id, wanted)
    await checkSavedConfig(tx, actor, { type, connector_name: input.connector_name }, config)
    const sealed = box.seal(placeOfSaved({ id, organization_id: actor.organization_id }), config)
    const row = await tx.first<SavedConnector>(sql`
      WITH logged AS (${auditStatement(actor, `saved_${type}.created`, { type: 'saved_connector', id, details: { name: input.name, connector_name: input.connector_name } })})
      INSERT INTO saved_connectors (id, organization_id, type, name, connector_name, config_box, description)
      VALUES (${id}, ${actor.organization_id}, ${type}, ${input.name}, ${input.connector_name}, ${sealed}, ${input.description ?? null})
      RETURNING ${columns}`)
    return row!
  }
  return refersToRows(wanted) ? db.transaction(create) : create(db)
}

/** Absent fields stay unchanged. A complete new config is accepted even if the key of the stored one is lost. */
export async function updateSavedConnector(
  { db, box, config: rules }: Stores,
  actor: Actor,
  { type, id }: SavedConnectorKey,
  input: { name?: string; config?: unknown; description?: string | null },
): Promise<SavedConnector> {
  return db.transaction(async (tx) => {
    const row = await tx.first<SavedConnector & { config_box: Buffer }>(sql`
      SELECT ${columns}, config_box FROM saved_connectors
       WHERE organization_id = ${actor.organization_id} AND type = ${type} AND id = ${id} FOR UPDATE`)
    if (!row) throw notFound(`Saved ${type}`)
    const place = { id, organization_id: actor.organization_id }
    let sealed = row.config_box
    if (input.config !== undefined) {
      // A mask is what a reader sees: whoever cannot read a secret must not be able to keep it and change its address.
      if (hasMask(input.config)) requirePermission(actor, 'connectors:read')
      const config = hasMask(input.config)
        ? keepSecrets(rules, row, input.config, openConfig(box, { ...row, ...place }, row.config_box))
        : input.config
      await checkSavedConfig(tx, actor, row, config)
      const { connector_name, config_box } = row
      const seat = { ...place, table: 'saved_connectors' as const, config_box, connector_name }
      sealed = box.seal(placeOfSaved(place), await keepNewerToken(tx, box, seat, config))
    }
    const changed = await tx.first<SavedConnector>(sql`
      UPDATE saved_connectors SET name = ${input.name ?? row.name}, config_box = ${sealed},
             description = ${input.description === undefined ? row.description : input.description}, updated_at = now()
       WHERE id = ${id} RETURNING ${columns}`)
    await audit(tx, actor, `saved_${type}.updated`, {
      type: 'saved_connector',
      id,
      details: { name: changed!.name, fields: fieldsOf(input, ['name', 'config', 'description']) },
    })
    return changed!
  })
}

/** Pipelines that use it stay; their next run fails with a message that it was deleted. */
export async function deleteSavedConnector(
  db: Transactions,
  actor: Actor,
  { type, id }: SavedConnectorKey,
  { if_unused = false }: { if_unused?: boolean } = {},
): Promise<void> {
  await db.transaction(async (tx) => {
    if (if_unused) {
      await requireSavedConnector(tx, actor, { type, id }, sql` FOR UPDATE`)
      await requireUnused(tx, actor, { saved: type, id })
    }
    const row = await tx.first<{ name: string }>(sql`
      DELETE FROM saved_connectors WHERE organization_id = ${actor.organization_id} AND type = ${type} AND id = ${id} RETURNING name`)
    if (!row) throw notFound(`Saved ${type}`)
    await audit(tx, actor, `saved_${type}.deleted`, { type: 'saved_connector', id, details: { name: row.name } })
  })
}

export async function requireSavedConnector(
  db: Queryable,
  actor: Actor,
  { type, id }: SavedConnectorKey,
  lock: Statement = sql``,
): Promise<void> {
  const row = await db.first(sql`
    SELECT 1 FROM saved_connectors WHERE organization_id = ${actor.organization_id} AND type = ${type} AND id = ${id}${lock}`)
  if (!row) throw notFound(`Saved ${type}`)
}

function keepSecrets(rules: SecretRules, row: SavedConnector, given: unknown, stored: SavedConfig): unknown {
  const side = { kind: row.type, connector_name: row.connector_name, settings_at_top: row.type === 'destination' }
  requireKeptInPlace(rules, side, { incoming: given, stored, path: 'config' })
  return restoreMasks(given, stored, 'config')
}

function openConfig(
  box: SecretBox,
  row: { id: string; organization_id: string; type: ConnectorType },
  sealed: Buffer,
): SavedConfig {
  try {
    return box.open(placeOfSaved(row), sealed)
  } catch (error) {
    if (!(error instanceof SecretLost)) throw error
    throw new AppError('conflict', `The config of this saved ${row.type} cannot be decrypted. ${error.message}`)
  }
}

async function checkSavedConfig(
  db: Queryable,
  actor: Actor,
  { type, connector_name: connectorName }: Pick<SavedConnector, 'type' | 'connector_name'>,
  config: unknown,
): Promise<void> {
  const faults = await findSavedFaults(db, actor, { type, connector_name: connectorName }, config)
  if (faults.length > 0) throw refuse(faults)
  // A source may name the output of a run, and an API key may have the one permission without the other.
  const named = type === 'source' && isObject(config) ? outputsOf(findSource(connectorName), config.config ?? {}) : []
  if (named.length > 0) requirePermission(actor, 'pipelines:read')
}

/** Everything wrong with the config of a saved connector. */
export async function findSavedFaults(
  db: Queryable,
  { organization_id }: Actor,
  { type, connector_name }: Pick<SavedConnector, 'type' | 'connector_name'>,
  config: unknown,
): Promise<string[]> {
  const size = findSizeFault(config, 'config')
  if (size !== null) return [size]
  return type === 'source'
    ? findSourceFaults(db, organization_id, connector_name, config)
    : findDestinationFaults(connector_name, config)
}

function findDestinationFaults(connectorName: string, config: unknown): string[] {
  const destination = findDestination(connectorName)
  if (!destination) return [unknownConnector('destination', connectorName, 'connector_name')]
  return findConfigFaults(withoutOverrides(destination), config, undefined, 'config')
}

async function findSourceFaults(
  db: Queryable,
  organizationId: string,
  connectorName: string,
  config: unknown,
): Promise<string[]> {
  const wanted = { source_id: null, source_name: connectorName, destination_id: null }
  const traits = findTraits(connectorName, (await loadReferences(db, organizationId, wanted)).custom)
  if (!traits) return [unknownConnector('source', connectorName, 'connector_name')]
  const faults = findSettingsFaults(savedSourceFrame, config, 'config')
  if (!isObject(config)) return faults
  const { authentication, config: settings = {} } = config
  if (isObject(authentication))
    faults.push(...findAuthenticationFaults(authentication, traits.auth_types, 'config.authentication'))
  if (isObject(settings))
    faults.push(...findConfigFaults(withoutOverrides(traits), settings, undefined, 'config.config'))
  return faults
}

/** A setting that each pipeline may override, such as a table, may still be missing. */
function withoutOverrides<C extends { settings: TObject }>(connector: C): C {
  const { properties = {}, required = [] } = connector.settings as Node
  const settings = { ...connector.settings, required: required.filter((name) => !properties[name]?.override) }
  return { ...connector, settings }
}
