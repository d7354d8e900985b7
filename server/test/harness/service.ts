/** The real service as a process of its own, in a temporary data folder. */
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type Started, startProgram } from './processes.ts'

export const root = path.resolve(import.meta.dirname, '../../..')
export const MAIN = path.join(root, 'server/src/main.ts')

export const makeDataDir = (): string => mkdtempSync(path.join(tmpdir(), 'sluice-service-'))

/** What every command needs, and nothing of what the tests themselves run with. */
export const environment = (dataDir: string, env: Record<string, string> = {}): Record<string, string> => ({
  PATH: process.env.PATH ?? '',
  HOME: process.env.HOME ?? '/',
  DATA_DIR: dataDir,
  PORT: '0',
  ...env,
})

export const runSluice = (args: string[], env: Record<string, string>, input?: string): Started =>
  startProgram(process.execPath, [MAIN, ...args], { cwd: root, env }, input)

export interface Service extends Started {
  url: string
}

/** Resolves when it says that it is ready. */
export async function startService(dataDir: string, env: Record<string, string> = {}): Promise<Service> {
  return whenReady(runSluice(['start'], environment(dataDir, env)))
}

export async function whenReady(started: Started): Promise<Service> {
  const [, url] = await started.said(/Sluice is ready at (\S+)/)
  return { ...started, url: url! }
}
