/** `sluice restored`: run once after the platform's database was restored from a backup. */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { readConfig } from '../config/config.ts'
import { openOrJoinStore } from '../database/store.ts'
import { markRestored } from '../runs/restored.ts'
import { createServices } from '../services.ts'
import { UsageError } from './usage.ts'

export async function tellRestored(): Promise<number> {
  const config = readConfig()
  // Otherwise a mistyped folder would get a new, empty database and look like a success.
  if (config.DATABASE_URL === undefined && !existsSync(path.join(config.DATA_DIR, 'postgres')))
    throw new UsageError(`There is no database in ${config.DATA_DIR}; set DATA_DIR to the folder that was restored.`)
  const services = await createServices(config, { open: openOrJoinStore })
  try {
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
