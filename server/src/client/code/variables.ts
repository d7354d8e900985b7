/**
 * The values of the references in files: from the environment, which wins, or from a .env file. That file holds secrets, so
 * one that git tracks, or would take up with the next `git add`, is refused.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { lstat, readFile } from 'node:fs/promises'
import path from 'node:path'
import { parseEnv } from 'node:util'
import { readVariable } from '../../config/client-config.ts'
import { OperatorError } from '../../errors.ts'
import type { Options } from '../options.ts'

export type Variables = (name: string) => string | undefined

export async function readVariables(folder: string, options: Options): Promise<Variables> {
  const given = options['--env-file']
  const file = given ?? path.join(folder, '.env')
  const found = await lstat(file).catch(() => null)
  if (found === null) {
    if (given !== undefined) throw new OperatorError(`${file} cannot be read: there is no such file; check --env-file.`)
    return readVariable
  }
  if (!found.isFile()) throw new OperatorError(`${file} is not a file but a link or a folder; use the file itself.`)
  await requireOutsideGit(path.resolve(file), file)
  const values = parseEnv(await readFile(file, 'utf8'))
  return (name) => readVariable(name) ?? (Object.hasOwn(values, name) ? values[name] : undefined)
}

async function requireOutsideGit(place: string, shown: string): Promise<void> {
  const folder = path.dirname(place)
  const name = path.basename(place)
  if (!isInRepository(folder)) return
  const tracked = await git(folder, 'ls-files', '--error-unmatch', '--', name)
  if (tracked === 0)
    throw new OperatorError(
      `${shown} is in git, so everyone with the repository has its secrets. Remove it (git rm --cached), change the secrets, and add it to .gitignore.`,
    )
  const ignored = await git(folder, 'check-ignore', '--quiet', '--', name)
  if (tracked === 1 && ignored === 0) return
  if (tracked === 1 && ignored === 1)
    throw new OperatorError(`${shown} holds secrets and git does not ignore it. Add it to .gitignore.`)
  throw new OperatorError(
    `${shown} is in a git repository, and git cannot say whether it is ignored; run git status there.`,
  )
}

/** By the folders themselves: git may be missing, or refuse to answer. */
function isInRepository(folder: string): boolean {
  for (let here = folder; ; here = path.dirname(here)) {
    if (existsSync(path.join(here, '.git'))) return true
    if (here === path.dirname(here)) return false
  }
}

/** The exit code; -1 if it did not run. A repository may name programs for git to start, so none is. */
const git = (folder: string, ...args: string[]): Promise<number> =>
  new Promise((resolve) => {
    const safe = ['-c', 'core.fsmonitor=false', '-c', 'core.hooksPath=/dev/null']
    execFile('git', [...safe, ...args], { cwd: folder, timeout: 10_000 }, (error) => {
      resolve(error === null ? 0 : typeof error.code === 'number' ? error.code : -1)
    })
  })
