import { readConfig } from '../config/config.ts'
import { createServices } from '../services.ts'

export async function migrateDatabase(): Promise<number> {
  const services = await createServices(readConfig())
  await services.close()
  console.log('The database has the newest schema.')
  return 0
}
