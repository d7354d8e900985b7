/**
 * Writes files into a folder and its own subfolders, and nowhere else: a link in the folder is never followed. Each file is
 * replaced as a whole, so that none is half written, and one that is the same already is left alone.
 */
import { randomUUID } from 'node:crypto'
import { lstat, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { OperatorError } from '../../errors.ts'
import { explainFile } from '../files.ts'

/** By their paths in the folder, with `/`. */
export type Files = Map<string, string>

export const FOLDERS = ['pipelines', 'connections', 'sources', 'manifests'] as const
/** What the files of an export end with. */
export const ENDINGS: Record<(typeof FOLDERS)[number], RegExp> = {
  pipelines: /\.ya?ml$/,
  connections: /\.ya?ml$/,
  sources: /\.(ya?ml|py)$/,
  manifests: /\.ya?ml$/,
}

export async function writeFolder(folder: string, files: Files): Promise<{ written: number; left: string[] }> {
  await mkdir(folder, { recursive: true }).catch((error: Error) => {
    throw new OperatorError(`${folder} cannot be made: ${explainFile(error)}.`)
  })
  const folders = new Set([...files.keys()].map((file) => path.posix.dirname(file)).filter((name) => name !== '.'))
  for (const name of folders) await requireFolder(path.join(folder, name), name)
  let written = 0
  for (const [file, text] of files) if (await replace(path.join(folder, file), file, text)) written++
  return { written, left: await findOthers(folder, files) }
}

export const removeFiles = async (folder: string, files: readonly string[]): Promise<void> => {
  for (const file of files) await rm(path.join(folder, file))
}

async function requireFolder(place: string, name: string): Promise<void> {
  await mkdir(place).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw new OperatorError(`${name} cannot be made: ${explainFile(error)}.`)
  })
  if (!(await lstat(place)).isDirectory())
    throw new OperatorError(`${name} is not a folder but a link or a file; remove it, or export into another folder.`)
}

async function replace(place: string, name: string, text: string): Promise<boolean> {
  const found = await lstat(place).catch(() => null)
  if (found?.isDirectory()) throw new OperatorError(`${name} is a folder; remove it, or export into another folder.`)
  if (found?.isFile() && (await readFile(place)).equals(Buffer.from(text))) return false
  // A rename replaces a link instead of writing through it.
  const temporary = path.join(path.dirname(place), `.sluice-${randomUUID()}.tmp`)
  try {
    await writeFile(temporary, text, { flag: 'wx' })
    await rename(temporary, place)
  } catch (error) {
    await rm(temporary, { force: true })
    throw new OperatorError(`${name} cannot be written: ${explainFile(error)}.`)
  }
  return true
}

/** Files of an earlier export, of objects that no longer exist: a plan would create them again. */
async function findOthers(folder: string, files: Files): Promise<string[]> {
  const others: string[] = []
  for (const name of FOLDERS) {
    if (!(await lstat(path.join(folder, name)).catch(() => null))?.isDirectory()) continue
    const entries = await readdir(path.join(folder, name), { withFileTypes: true }).catch(() => [])
    for (const entry of entries)
      if (entry.isFile() && ENDINGS[name].test(entry.name) && !files.has(`${name}/${entry.name}`))
        others.push(`${name}/${entry.name}`)
  }
  return others.sort()
}
