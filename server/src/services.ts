/**
 * The composition root: everything that lives as long as the process, created once from the configuration. Closing
 * happens in reverse order.
 */
import type { Logger } from 'pino'
import type { BlobStore } from './blobs/blobs.ts'
import { openBlobs } from './blobs/open.ts'
import { interactiveLimits } from './cell/limits.ts'
import { cellSettings } from './cell/settings.ts'
import type { Config } from './config/config.ts'
import { type ConnectionSettings, connectDatabase, type Database } from './database/database.ts'
import { chooseConnection } from './database/database-url.ts'
import { migrate } from './database/migrate.ts'
import { requireDatabase } from './database/requirements.ts'
import { ROLE_PREFIX } from './database/running-roles.ts'
import { createSecretBox, type SecretBox } from './database/secret-box.ts'
import { namesOfServers } from './database/server-list.ts'
import { type Keys, openStore, type Store } from './database/store.ts'
import type { Listener } from './egress/guard.ts'
import { createEgress, type Egress } from './egress/policy.ts'
import { OperatorError } from './errors.ts'
import { type CallPool, createCallPool } from './executors/call-pool.ts'
import { createTokens, type Tokens } from './identity/tokens.ts'
import { createLog } from './log.ts'
import { createReadiness, type Readiness, type RoleState } from './readiness.ts'
import { createRunMessages, type RunMessages } from './runs/messages.ts'
import { createRunEvents, type RunEvents } from './runs/run-events.ts'
import { createKeyUses, type KeyUses } from './tenancy/api-key-uses.ts'
import { createTraces, type Traces } from './traces.ts'

export interface Services {
  config: Config
  log: Logger
  db: Database
  tokens: Tokens
  box: SecretBox
  blobs: BlobStore
  egress: Egress
  /** Separate for the identity provider, so that tenants' DNS lookups cannot delay a sign-in. */
  providerEgress: Egress
  /** Our own listeners and database, which no tenant request may reach. Read at every check. */
  ownAddresses: Listener[]
  keyUses: KeyUses
  /** The processes for interactive calls to tenants' code and servers; started at first use. */
  calls: CallPool
  runMessages: RunMessages
  runEvents: RunEvents
  /** The state shown by /readyz; roles add theirs. */
  readiness(): Promise<Readiness>
  state: RoleState
  /** Null if no collector is configured. */
  traces: Traces | null
  close(): Promise<void>
}

/** Two API processes, three workers and two schedulers fit into PostgreSQL's default of one hundred connections. */
const POOLS = { api: 10, worker: 4, scheduler: 4 }
export type RoleName = keyof typeof POOLS
const sumPools = (roles: RoleName[]): number => roles.reduce((sum, role) => sum + POOLS[role], 0)

export interface ServiceOptions {
  log?: Logger
  /** The roles of this process; they determine the number of its connections. */
  roles?: RoleName[]
  /** How the database and the keys are opened; by default this process runs the embedded database if there is one. */
  open?: (config: Config, log: Logger) => Store | Promise<Store>
}

export async function createServices(config: Config, options: ServiceOptions = {}): Promise<Services> {
  const { log = createLog(config), open = openStore } = options
  const closers: (() => Promise<unknown>)[] = []
  const close = async () => {
    for (const closer of closers.splice(0).reverse())
      await closer().catch((error: Error) => log.error({ err: error }, 'closing failed'))
  }
  try {
    const store = await open(config, log)
    closers.push(() => store.close())
    const poolSize = config.DATABASE_POOL ?? sumPools(options.roles ?? ['api'])
    const connection = nameConnection(await chooseConnection(store), config, options.roles)
    const db = connectDatabase(connection, poolSize, (error) => log.warn({ err: error }, 'a database connection broke'))
    closers.push(() => db.close())
    await requireDatabase(db)
    const applied = await migrate(db, (message) => log.warn(message))
    if (applied > 0) log.info(`applied ${applied} ${applied === 1 ? 'migration' : 'migrations'}`)
    const services = composeServices({ config, log, db, keys: store.keys, closers, close })
    await requireBlobs(services)
    return services
  } catch (error) {
    await close()
    throw error
  }
}

/** The name under which sessions of a role are known in PostgreSQL (database/running-roles.ts). */
function nameConnection(connection: ConnectionSettings, config: Config, roles: RoleName[] = []): ConnectionSettings {
  if (roles.length === 0) return connection
  const application_name = `${ROLE_PREFIX}${roles.join('+')} ${config.instance}`
  return { ...connection, session: { ...connection.session, application_name } }
}

/** A store that is unreachable may come back; one that refuses us will not. */
async function requireBlobs({ blobs, log }: Services): Promise<void> {
  await blobs.check().catch((error: Error) => {
    if (error instanceof OperatorError) throw error
    log.warn({ err: error }, 'the blob store does not answer; runs that keep output wait for it')
  })
}

export interface Parts {
  config: Config
  log: Logger
  db: Database
  keys: Keys
  /** What is opened here adds its closer; `close` calls them in reverse order. */
  closers: (() => Promise<unknown>)[]
  close: () => Promise<void>
}

/** Everything above the connection; tests call this with their own database. */
export function composeServices({ config, log, db, keys, closers, close }: Parts): Services {
  const blobs = openBlobs(config)
  const ownAddresses = addressesOf(config)
  const openEgress = (): Egress => {
    const egress = createEgress({ allow: config.EGRESS_ALLOW, self: ownAddresses })
    closers.push(() => egress.close())
    return egress
  }
  const [egress, providerEgress] = [openEgress(), openEgress()]
  const keyUses = createKeyUses(db, (error) => log.warn({ err: error }, 'last_used_at of API keys could not be saved'))
  closers.push(() => keyUses.flush())
  const runMessages = createRunMessages(db, (error) => log.warn({ err: error }, 'listening for runs failed'))
  closers.push(() => runMessages.close())
  const runEvents = createRunEvents(db, runMessages, (error) => log.warn({ err: error }, 'looking at runs failed'))
  closers.push(async () => runEvents.close())
  const state: RoleState = { failing: new Set(), sandbox: 'not started' }
  const collector = config.OTEL_EXPORTER_OTLP_ENDPOINT
  const traces = collector === undefined ? null : createTraces(collector, log)
  closers.push(async () => traces?.close())
  const calls = openCalls(config, ownAddresses, log)
  closers.push(() => calls.close())
  return {
    config,
    log,
    db,
    egress,
    providerEgress,
    ownAddresses,
    keyUses,
    calls,
    runMessages,
    runEvents,
    state,
    traces,
    tokens: createTokens({ ...config, JWT_SECRET_KEY: keys.jwt_secret }),
    box: createSecretBox(keys.encryption_keys),
    blobs,
    readiness: createReadiness(db, blobs, state),
    close,
  }
}

function openCalls(config: Config, ownAddresses: Listener[], log: Logger): CallPool {
  const cell = cellSettings(config)
  return createCallPool({
    settings: () => ({ serves: 'calls', cell: { ...cell, limits: interactiveLimits(cell.limits) } }),
    egress: () => ({ allow: config.EGRESS_ALLOW, self: ownAddresses }),
    memoryMb: config.CALL_MEMORY_MB,
    concurrency: config.CALL_CONCURRENCY,
    perOrganization: Math.max(1, Math.floor(config.CALL_CONCURRENCY / 2)),
    warn: (complaint) => log.warn(complaint),
  })
}

/** Addresses under which this service itself can be reached. */
export function addressesOf(config: Config): Listener[] {
  const own: Listener[] = [{ host: config.HOST, port: config.PORT }]
  if (config.PUBLIC_URL) {
    const { hostname, port, protocol } = new URL(config.PUBLIC_URL)
    own.push({ host: hostname, port: Number(port) || USUAL_PORTS[protocol] || 0, by_address: false })
  }
  for (const server of namesOfServers(config.DATABASE_URL ?? '')) own.push({ ...server, by_address: true })
  return own
}

const USUAL_PORTS: Record<string, number> = { 'http:': 80, 'https:': 443 }
