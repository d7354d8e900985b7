/** A data folder with a seeded database, and an account that owns its largest organization. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { decodeJwt } from 'jose'
import { connectDatabase, type Database } from '../../server/src/database/database.ts'
import { startEmbeddedPostgres } from '../../server/src/database/embedded-postgres.ts'
import { createSecretBox, type SecretBox } from '../../server/src/database/secret-box.ts'
import { type Platform, startPlatform } from './platform.ts'
import { type Seed, seed } from './seed.ts'

export interface Installation {
  organization: string
  /** Runs the whole platform on it while `work` does. */
  withPlatform<T>(work: (platform: Platform, token: string) => Promise<T>): Promise<T>
  /** Only the database. */
  withDatabase<T>(work: (db: Database, box: SecretBox) => Promise<T>): Promise<T>
}

export async function openInstallation(folder: string, size: Seed): Promise<Installation> {
  const note = path.join(folder, 'seeded.json')
  mkdirSync(folder, { recursive: true })
  if (!existsSync(note)) await create(folder, note, size)
  const { organization, email } = JSON.parse(readFileSync(note, 'utf8')) as { organization: string; email: string }
  return {
    organization,
    async withPlatform(work) {
      const platform = await startPlatform(folder)
      try {
        return await work(platform, await platform.api.login(email))
      } finally {
        await platform.stop()
      }
    },
    async withDatabase(work) {
      const { database_password, encryption_key } = readSecrets(folder)
      const server = await startEmbeddedPostgres(folder, database_password)
      const db = connectDatabase(server.connection, 4, console.error)
      try {
        return await work(db, createSecretBox([encryption_key]))
      } finally {
        await db.close()
        await server.stop()
      }
    },
  }
}

const readSecrets = (folder: string) =>
  JSON.parse(readFileSync(path.join(folder, 'secrets.json'), 'utf8')) as Record<
    'database_password' | 'encryption_key',
    string
  >

async function create(folder: string, note: string, size: Seed): Promise<void> {
  const platform = await startPlatform(folder)
  const token = await platform.api.register()
  const { email } = await platform.api.read(token, '/api/auth/me')
  await platform.stop()
  const { database_password, encryption_key } = readSecrets(folder)
  const server = await startEmbeddedPostgres(folder, database_password)
  try {
    const organization = decodeJwt(token).org as string
    await seed(server.connection, createSecretBox([encryption_key]), { ...size, largest: organization })
    writeFileSync(note, JSON.stringify({ organization, email, ...size }))
  } finally {
    await server.stop()
  }
}
