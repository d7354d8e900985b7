/**
 * The data folder: its lock, and the secrets generated for it. Only one service uses it at a time. The lock is an
 * abstract unix socket named after the folder, which the kernel releases when its holder dies, however it dies.
 */
import { createHash, randomBytes } from 'node:crypto'
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  statSync,
  writeSync,
} from 'node:fs'
import { createServer, type Server } from 'node:net'
import path from 'node:path'
import { OperatorError } from '../errors.ts'

class DataFolderError extends OperatorError {}
export class DataFolderInUse extends DataFolderError {}

export interface Secrets {
  jwt_secret: string
  encryption_key: string
  database_password: string
}

/** Creates it if it is missing, and returns its path with links resolved. */
export function makeDataFolder(folder: string): string {
  try {
    makeFolders(folder)
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    return realpathSync(folder)
  } catch (error) {
    throw new DataFolderError(
      `The data folder ${folder} cannot be created or written to (${(error as NodeJS.ErrnoException).code}); set DATA_DIR to a folder that this user may write to.`,
    )
  }
}

/** Node's own recursive mkdir loops forever where the kernel refuses to create a folder, as below /proc. */
function makeFolders(folder: string): void {
  const missing: string[] = []
  for (let at = folder; !existsSync(at) && at !== path.dirname(at); at = path.dirname(at)) missing.push(at)
  for (const each of missing.reverse()) {
    try {
      mkdirSync(each, { mode: 0o700 })
    } catch (error) {
      // Two services that start at the same time create the same folders.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || !existsSync(each)) throw error
    }
  }
  if (!statSync(folder).isDirectory()) throw Object.assign(new Error('not a folder'), { code: 'ENOTDIR' })
}

export async function lockDataFolder(folder: string): Promise<() => Promise<void>> {
  const { dev, ino } = statSync(folder)
  const id = createHash('sha256').update(`${dev}:${ino}`).digest('hex').slice(0, 32)
  const name = process.platform === 'linux' ? `\0sluice-${id}` : path.join(folder, 'lock')
  const server = createServer((socket) => socket.end(`${process.pid}\n`))
  try {
    await listen(server, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    throw new DataFolderInUse(
      `Another Sluice is already running on the data folder ${folder}; stop it first, or set DATA_DIR to another folder.`,
    )
  }
  server.unref()
  return () => new Promise((resolve) => server.close(() => resolve()))
}

const listen = (server: Server, name: string) =>
  new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(name, resolve)
  })

/** Secrets are generated at the first start. They are written completely and synced before they are used. */
export function readOrMakeSecrets(folder: string): Secrets {
  const file = path.join(folder, 'secrets.json')
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Secrets
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EACCES')
      throw new DataFolderError(
        `The data folder ${folder} belongs to another user; start Sluice as that user, or set DATA_DIR to another folder.`,
      )
    if (code !== 'ENOENT')
      throw new DataFolderError(
        `The secrets in ${file} cannot be read (${(error as Error).message}). Without them, encrypted data cannot be decrypted: restore the file from a backup.`,
      )
  }
  const secrets: Secrets = {
    jwt_secret: randomBytes(32).toString('base64url'),
    encryption_key: randomBytes(32).toString('base64'),
    database_password: randomBytes(24).toString('base64url'),
  }
  try {
    writeSynced(file, `${JSON.stringify(secrets, null, 2)}\n`)
  } catch (error) {
    throw new DataFolderError(
      `The secrets of this installation cannot be written to ${file} (${(error as NodeJS.ErrnoException).code}); free some space, or set DATA_DIR to another folder.`,
    )
  }
  return secrets
}

function writeSynced(file: string, text: string): void {
  const descriptor = openSync(`${file}.new`, 'w', 0o600)
  writeSync(descriptor, text)
  fsyncSync(descriptor)
  closeSync(descriptor)
  renameSync(`${file}.new`, file)
  const directory = openSync(path.dirname(file), 'r')
  fsyncSync(directory)
  closeSync(directory)
}
