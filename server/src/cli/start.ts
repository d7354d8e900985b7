/**
 * `sluice start` and its parts: configuration, services, roles, and an orderly end. SIGTERM and SIGINT stop accepting,
 * let what runs finish for DRAIN_SECONDS, and end the process at most two seconds later.
 */
import { completeAddresses, readConfig } from '../config.ts'
import { createServices, type Services } from '../services.ts'

export type RoleName = 'api' | 'scheduler' | 'worker'

interface RunningRole {
  /** Ends when its work is done, or hands it over when the signal says that time is up. */
  stop(deadline: AbortSignal): Promise<void>
}

const AFTER_DRAIN_MS = 1500

export async function start(roles: RoleName[]): Promise<number> {
  const config = readConfig()
  const asked = waitForSignal()
  const services = await createServices(config)
  const running: RunningRole[] = []
  try {
    if (roles.includes('api')) running.push(await startApi(services))
    announce(services, roles)
    await asked
    services.log.info('stopping')
    const last = setTimeout(() => process.exit(1), config.DRAIN_SECONDS * 1000 + AFTER_DRAIN_MS)
    last.unref()
    const deadline = AbortSignal.timeout(config.DRAIN_SECONDS * 1000)
    await Promise.all(running.map((role) => role.stop(deadline)))
  } finally {
    await services.close()
  }
  services.log.info('stopped')
  return 0
}

async function startApi(services: Services): Promise<RunningRole> {
  const { createApp } = await import('../http/app.ts')
  const app = await createApp(services)
  await app.listen({ host: services.config.HOST, port: services.config.PORT }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE') throw error
    const taken = new Error(
      `Port ${services.config.PORT} on ${services.config.HOST} is taken by another program; stop it, or set PORT to another one.`,
    )
    taken.name = 'AppError'
    throw taken
  })
  const address = app.server.address()
  if (typeof address === 'object' && address !== null)
    Object.assign(services.config, completeAddresses(services.config, address.port))
  return {
    stop: async (deadline) => {
      deadline.addEventListener('abort', () => app.server.closeAllConnections())
      await app.close()
    },
  }
}

function waitForSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.once(signal, () => {
        // A second one does not wait.
        process.once(signal, () => process.exit(1))
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
