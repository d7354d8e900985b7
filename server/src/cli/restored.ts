/** `sluice restored`: run once after the platform's database was restored from a backup. */
import { readConfig } from '../config/config.ts'
import { refuseWhileRunning } from '../database/running-roles.ts'
import { openOrJoinStore } from '../database/store.ts'
import { markRestored } from '../runs/restored.ts'
import { createServices } from '../services.ts'
import { requireInstallation } from './open-database.ts'

export async function tellRestored(): Promise<number> {
  const config = readConfig()
  requireInstallation(config, 'that was restored')
  const services = await createServices(config, { open: openOrJoinStore })
  try {
    await refuseWhileRunning(services.db)
    const { installation, unfinished } = await markRestored(services.db)
    console.log(
      `Run numbers now start above everything that may have been assigned since the backup, and ${unfinished === 1 ? '1 unfinished run starts' : `${unfinished} unfinished runs start`} another attempt.`,
    )
    console.log(`This installation is now ${installation}.`)
  } finally {
    await services.close()
  }
  return 0
}
