/** `sluice restored`: run once after the platform's database was restored from a backup. */
import { readConfig } from '../config/config.ts'
import { openOrJoinStore } from '../database/store.ts'
import { markRestored } from '../runs/restored.ts'
import { createServices } from '../services.ts'

export async function tellRestored(): Promise<number> {
  const services = await createServices(readConfig(), { open: openOrJoinStore })
  try {
    const { installation, unfinished } = await markRestored(services.db)
    console.log(
      `Runs are numbered above everything that was given out since the backup, and ${unfinished === 1 ? '1 run that had not ended begins' : `${unfinished} runs that had not ended begin`} another attempt.`,
    )
    console.log(`This installation is now ${installation}.`)
  } finally {
    await services.close()
  }
  return 0
}
