import { readConfig } from '../config/config.ts'
import { createServices } from '../services.ts'

export async function migrateDatabase(): Promise<number> {
  const services = await createServices(readConfig())
  await services.close()
  console.log('The database schema is up to date.')
  return 0
}
