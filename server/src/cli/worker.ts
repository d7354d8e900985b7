/** `sluice worker`: one that stays, or one for a single run (`--once`), which something else starts while runs wait. */

import { readConfig } from '../config/config.ts'
import { UsageError } from '../errors.ts'
import { SHARED } from '../runs/slots.ts'
import { runRoles } from './roles.ts'

export async function runWorker(options: Record<string, string>): Promise<number> {
  const once = options['--once'] !== undefined
  const podClass = options['--class']
  if (podClass !== undefined && !once)
    throw new UsageError('sluice worker --class needs --once: a worker that stays takes the runs that ask for no pod.')
  const config = readConfig()
  if (!once) return runRoles(['worker'], config)
  if (podClass !== undefined && !config.POD_CLASSES.includes(podClass))
    throw new UsageError(
      `There is no class '${podClass}': POD_CLASSES ${config.POD_CLASSES.length === 0 ? 'is not set' : `has ${config.POD_CLASSES.join(', ')}`}.`,
    )
  const share = { ...SHARED, once, ...(podClass !== undefined && { podClass }) }
  return runRoles(['worker'], { ...config, WORKER_CONCURRENCY: 1 }, { share })
}
