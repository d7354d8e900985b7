/**
 * What `sluice login` keeps: services with a key each, under a name. The file is readable by its owner alone, and is
 * replaced as a whole, so that a crash leaves the old one or the new one.
 */
import { chmod, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { configFolder } from '../config/client-config.ts'
import { OperatorError, UsageError } from '../errors.ts'
import { explainFile } from './files.ts'

interface Profile {
  url: string
  api_key: string
}

export interface Profiles {
  /** The one that is used unless another is named: the last that was signed in. */
  current: string | null
  profiles: Record<string, Profile>
}

export const profilesFile = (): string => path.join(configFolder(), 'profiles.json')

export async function readProfiles(): Promise<Profiles> {
  const file = profilesFile()
  let text: string
  try {
    const { mode } = await stat(file)
    if ((mode & 0o077) !== 0)
      throw new OperatorError(
        `${file} holds API keys and others may read or write it; run chmod 600 ${file}, and replace the keys if others use this machine.`,
      )
    text = await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { current: null, profiles: {} }
    if (error instanceof OperatorError) throw error
    throw new OperatorError(`${file} cannot be read: ${explainFile(error)}.`)
  }
  const read = parse(text)
  if (read === null)
    throw new OperatorError(`${file} is not as sluice login writes it; delete it, and sign in again with sluice login.`)
  return read
}

/** "there is default, test". */
export const listProfiles = (profiles: Profiles['profiles']): string =>
  Object.keys(profiles).length === 0 ? 'none is saved' : `there is ${Object.keys(profiles).join(', ')}`

function parse(text: string): Profiles | null {
  try {
    const { current, profiles } = JSON.parse(text) as Profiles
    const entries = Object.entries(profiles)
    if (!entries.every(([, { url, api_key }]) => typeof url === 'string' && typeof api_key === 'string')) return null
    return { current: typeof current === 'string' ? current : null, profiles: Object.fromEntries(entries) }
  } catch {
    return null
  }
}

export async function writeProfiles(profiles: Profiles): Promise<void> {
  const file = profilesFile()
  const { randomUUID } = await import('node:crypto')
  const next = `${file}.${randomUUID()}`
  try {
    await mkdir(path.dirname(file), { recursive: true, mode: 0o700 })
    const handle = await open(next, 'wx', 0o600)
    try {
      await handle.writeFile(`${JSON.stringify(profiles, null, 2)}\n`)
      await handle.sync()
    } finally {
      await handle.close()
    }
    // Not left to the umask.
    await chmod(next, 0o600)
    await rename(next, file)
  } catch (error) {
    await rm(next, { force: true })
    throw new OperatorError(`${file} cannot be written: ${explainFile(error)}.`)
  }
}

export function checkProfileName(name: string): string {
  if (!/^[\w.-]{1,64}$/.test(name) || name in Object.prototype)
    throw new UsageError(`A profile has a name of letters, digits, '-', '_' and '.', not '${name}'.`)
  return name
}
