/**
 * `sluice start` and its parts: configuration, services, roles, and an orderly end. SIGTERM and SIGINT stop accepting,
 * let what runs finish for DRAIN_SECONDS, and end the process at most two seconds later.
 */
import { completeAddresses, readConfig } from '../config/config.ts'
import { OperatorError } from '../errors.ts'
import { addressesOf, createServices, type Services } from '../services.ts'

export type RoleName = 'api' | 'scheduler' | 'worker'

interface RunningRole {
  /** Ends when its work is done, or hands it over when the signal says that time is up. */
  stop(deadline: AbortSignal): Promise<void>
}

const AFTER_DRAIN_MS = 1500
const LINGERS_AT_MOST_MS = 300

export async function start(roles: RoleName[]): Promise<number> {
  const config = readConfig()
  const asked = waitForSignal()
  const services = await createServices(config)
  const running: RunningRole[] = []
  try {
    if (roles.includes('api')) running.push(await startApi(services))
    if (roles.includes('worker')) running.push(await (await import('../runs/worker.ts')).startWorker(services))
    if (roles.includes('scheduler'))
      running.push(await (await import('../scheduler/scheduler.ts')).startScheduler(services))
    announce(services, roles)
    await asked
    services.log.info('stopping')
    const last = setTimeout(() => process.exit(1), config.DRAIN_SECONDS * 1000 + AFTER_DRAIN_MS)
    last.unref()
    const deadline = AbortSignal.timeout(config.DRAIN_SECONDS * 1000)
    await Promise.all(running.splice(0).map((role) => role.stop(deadline)))
  } finally {
    // Roles are left only where a later one did not start.
    await Promise.all(running.map((role) => role.stop(AbortSignal.abort())))
    await services.close()
    // Everything is closed; whatever still keeps the process alive must not keep it from ending.
    setTimeout(() => process.exit(), LINGERS_AT_MOST_MS).unref()
  }
  services.log.info('stopped')
  return 0
}

async function startApi(services: Services): Promise<RunningRole> {
  const { createApp } = await import('../http/app.ts')
  const app = await createApp(services)
  const { HOST: host, PORT: port } = services.config
  await app.listen({ host, port }).catch((error: NodeJS.ErrnoException) => {
    throw LISTEN_PROBLEMS[error.code ?? '']?.(host, port) ?? error
  })
  const address = app.server.address()
  if (typeof address === 'object' && address !== null)
    Object.assign(services.config, completeAddresses(services.config, address.port))
  services.ownAddresses.push(...addressesOf(services.config))
  let stopping = false
  void proveSandbox(services, () => stopping)
  return {
    stop: async (deadline) => {
      stopping = true
      deadline.addEventListener('abort', () => app.server.closeAllConnections(), { once: true })
      await app.close()
    },
  }
}

/** Custom sources are refused where the sandbox does not hold; whoever runs the service should hear it at once. */
async function proveSandbox(services: Services, isStopping: () => boolean): Promise<void> {
  const { ok, reason } = await services.cells().selfTest()
  if (!ok && !isStopping()) services.log.warn(`custom sources are disabled: ${reason}`)
}

const LISTEN_PROBLEMS: Record<string, (host: string, port: number) => OperatorError> = {
  EADDRINUSE: (host, port) =>
    new OperatorError(`Port ${port} on ${host} is taken by another program; stop it, or set PORT to another one.`),
  EACCES: (_host, port) => new OperatorError(`This user may not listen on port ${port}; set PORT to 1024 or more.`),
  EADDRNOTAVAIL: (host) => new OperatorError(`This machine does not have the address ${host}; set HOST to one it has.`),
  ENOTFOUND: (host) => new OperatorError(`The name ${host} is not known; set HOST to an address of this machine.`),
}

/** Ctrl+C reaches the whole process group, and npm hands it on once more: within this time both are the same wish. */
const SAME_SIGNAL_MS = 500

function waitForSignal(): Promise<void> {
  let first = 0
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (first === 0) first = performance.now()
        // Whoever asks again does not want to wait.
        else if (performance.now() - first > SAME_SIGNAL_MS) process.exit(1)
        resolve()
      })
    }
  })
}

function announce(services: Services, roles: RoleName[]): void {
  const { config, log } = services
  if (config.JWT_SECRET_KEY && config.JWT_SECRET_KEY.length < 32)
    log.warn('JWT_SECRET_KEY is shorter than 32 characters; use a longer one')
  if (config.SANDBOX === 'none')
    log.warn(
      'SANDBOX=none: custom sources run WITHOUT the cell and can do whatever this process can; never let others than you write them',
    )
  if (!roles.includes('api')) return void console.log(`Sluice ${roles.join(' and ')} is running; press Ctrl+C to stop.`)
  const base = config.PUBLIC_URL
  console.log(`
Sluice is ready at ${base}

  data           ${config.DATABASE_URL ? 'in the database of DATABASE_URL' : config.DATA_DIR}
  first account  curl -s ${base}/api/auth/register -H 'content-type: application/json' \\
                   -d '{"email":"you@example.com","password":"Choose-1-password","name":"You","organization_name":"Yours"}'
  API reference  ${base}/docs
`)
}
