/** The roles of a service in one process: their dependencies, start, and orderly shutdown (end.ts). */
import { cellSettings } from '../cell/settings.ts'
import { type Config, completeAddresses, readConfig } from '../config/config.ts'
import { sql } from '../database/database.ts'
import type { Store } from '../database/store.ts'
import { OperatorError } from '../errors.ts'
import { shrinkHeap } from '../heap.ts'
import { isConsoleBuilt } from '../http/console.ts'
import { createLog } from '../log.ts'
import type { Share } from '../runs/slots.ts'
import { addressesOf, createServices, type RoleName, type Services } from '../services.ts'
import { watchForEnd } from './end.ts'
import { requireTemporaryFolder } from './temporary-folder.ts'

export const ALL_ROLES: RoleName[] = ['api', 'worker', 'scheduler']

interface RunningRole {
  /** Finishes its work, or hands it over when the signal says that time is up. */
  stop(deadline: AbortSignal): Promise<void>
  /** Resolves if it ends by itself. */
  done?: Promise<void>
}

export interface RoleOptions {
  /** How the database is opened, if this process does not run the embedded one itself. */
  open?: (config: Config) => Store
  /** Called when all roles have started, before it is announced. */
  onReady?: (port: number) => Promise<void>
  /** What the worker takes; by default all runs that ask for no pod. */
  share?: Share
}

const CLOSE_MS = 1200
const SETTLE_MS = 2000
const LINGERS_AT_MOST_MS = 300

const startRole: Record<RoleName, (services: Services, share?: Share) => Promise<RunningRole>> = {
  api: startApi,
  worker: async (services, share) => (await loadRole.worker()).startWorker(services, share),
  scheduler: async (services) => (await loadRole.scheduler()).startScheduler(services),
}

/** Loads the code of a role, which takes longer than the rest of its start. */
export const loadRole = {
  api: () => import('../http/app.ts'),
  worker: () => import('../runs/worker.ts'),
  scheduler: () => import('../scheduler/scheduler.ts'),
}

/** One role as a separate process. When it crashes it exits, and its supervisor is expected to restart it. */
export const runRole = (role: RoleName): Promise<number> => runRoles([role], readConfig())

/** Runs until it is asked to shut down, or crashes; returns the exit code. */
export async function runRoles(roles: RoleName[], config: Config, options: RoleOptions = {}): Promise<number> {
  requireTemporaryFolder()
  const log = createLog(config)
  const end = watchForEnd(log, { drainMs: config.DRAIN_SECONDS * 1000, closeMs: CLOSE_MS })
  const services = await createServices(config, { ...options, log, roles })
  const running: RunningRole[] = []
  try {
    for (const role of roles) running.push(await startRole[role](services, options.share))
    if (!roles.includes('api') && config.HEALTH_PORT !== undefined) running.push(await startHealth(services))
    await options.onReady?.(config.PORT)
    announce(services, roles, await needsFirstAccount(services))
    if (roles.some((role) => role !== 'scheduler')) void warnAboutModules(services)
    const stopping = new AbortController()
    // After the announcement, because this must not delay those who wait for the service.
    if (roles.includes('api')) void proveSandbox(services, stopping.signal)
    setTimeout(shrinkHeap, SETTLE_MS).unref()
    await Promise.race([end.begun, ...running.flatMap(({ done }) => done ?? [])])
    stopping.abort()
    log.info('stopping')
    await Promise.all(running.splice(0).map((role) => role.stop(end.deadline)))
  } finally {
    // Roles are only left here if a later one did not start.
    await Promise.all(running.map((role) => role.stop(AbortSignal.abort())))
    await services.close()
    // Everything is closed; whatever still keeps the process alive must not prevent it from exiting.
    setTimeout(() => process.exit(), LINGERS_AT_MOST_MS).unref()
  }
  log.info('stopped')
  return end.crashed() ? 1 : 0
}

async function startApi(services: Services): Promise<RunningRole> {
  const { createApp } = await loadRole.api()
  const app = await createApp(services)
  const { config } = services
  await app.listen({ host: config.HOST, port: config.PORT }).catch(explainListening(config.HOST, config.PORT, 'PORT'))
  const address = app.server.address()
  if (typeof address === 'object' && address !== null) Object.assign(config, completeAddresses(config, address.port))
  services.ownAddresses.push(...addressesOf(config))
  return { stop: (deadline) => closeApp(app, deadline) }
}

/** A process without the API has no other health endpoint. */
async function startHealth(services: Services): Promise<RunningRole> {
  const { createHealthApp } = await import('../http/health-app.ts')
  const app = await createHealthApp(services)
  const { HOST: host, HEALTH_PORT: port = 0 } = services.config
  await app.listen({ host, port }).catch(explainListening(host, port, 'HEALTH_PORT'))
  services.ownAddresses.push({ host, port })
  return { stop: (deadline) => closeApp(app, deadline) }
}

type ListeningApp = Awaited<ReturnType<Awaited<ReturnType<typeof loadRole.api>>['createApp']>>

async function closeApp(app: ListeningApp, deadline: AbortSignal): Promise<void> {
  const closed = app.close()
  const closeConnections = () => app.server.closeAllConnections()
  if (deadline.aborted) closeConnections()
  else deadline.addEventListener('abort', closeConnections, { once: true })
  await closed
}

/** Custom sources are refused if the sandbox does not work; the operator should learn that at once. */
async function proveSandbox(services: Services, stopped: AbortSignal): Promise<void> {
  const { ok, reason } = await services.calls.selfTest()
  services.state.sandbox = ok ? (services.config.SANDBOX === 'none' ? 'none' : 'ok') : reason
  if (!ok && !stopped.aborted) services.log.warn(`custom sources are disabled: ${reason}`)
}

/** Custom sources work without a module that is not installed, but their authors cannot know why it is missing. */
async function warnAboutModules({ config, log }: Services): Promise<void> {
  if (config.CELL_MODULES.length === 0) return
  const { describeMissingModules } = await import('../cell/module-problems.ts')
  for (const sentence of await describeMissingModules(cellSettings(config))) log.warn(sentence)
}

const LISTEN_PROBLEMS: Record<string, (host: string, port: number, setting: string) => string> = {
  EADDRINUSE: (host, port, setting) =>
    `Port ${port} on ${host} is in use by another program; stop it, or set ${setting} to another port.`,
  EACCES: (_host, port, setting) => `This user may not listen on port ${port}; set ${setting} to 1024 or more.`,
  EADDRNOTAVAIL: (host) => `This machine does not have the address ${host}; set HOST to one it has.`,
  ENOTFOUND: (host) => `The name ${host} cannot be resolved; set HOST to an address of this machine.`,
}

const explainListening = (host: string, port: number, setting: string) => (error: NodeJS.ErrnoException) => {
  const sentence = LISTEN_PROBLEMS[error.code ?? '']?.(host, port, setting)
  throw sentence === undefined ? error : new OperatorError(sentence)
}

/**
 * Nobody has an account yet, and anyone may register. A hint is not worth the process: if the database is away, the roles
 * that run already go on by themselves.
 */
async function needsFirstAccount({ config, db }: Services): Promise<boolean> {
  if (config.SIGNUP !== 'open') return false
  return db.first(sql`SELECT 1 FROM users LIMIT 1`).then(
    (user) => user === null,
    () => false,
  )
}

function firstAccount(base: string): string {
  if (isConsoleBuilt()) return `  first account  ${base}/sign-up\n`
  return `  first account  curl -s ${base}/api/auth/register -H 'content-type: application/json' \\
                   -d '{"email":"you@example.com","password":"Choose-1-password","name":"You","organization_name":"Yours"}'
`
}

function announce(services: Services, roles: RoleName[], first: boolean): void {
  const { config, log } = services
  if (config.JWT_SECRET_KEY && config.JWT_SECRET_KEY.length < 32)
    log.warn('JWT_SECRET_KEY is shorter than 32 characters; use a longer one')
  if (config.SANDBOX === 'none')
    log.warn(
      'SANDBOX=none: custom sources run WITHOUT the cell and can do whatever this process can; use this only if you trust every author',
    )
  if (!roles.includes('api')) return void console.log(`Sluice ${roles.join(' and ')} is running; press Ctrl+C to stop.`)
  const base = config.PUBLIC_URL
  const account = first ? firstAccount(base) : ''
  console.log(`
Sluice is ready at ${base}

${account}  data           ${config.DATABASE_URL ? 'in the database of DATABASE_URL' : config.DATA_DIR}
  API reference  ${base}/docs
`)
}
