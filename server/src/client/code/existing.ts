/** The files that a folder already has, by the objects that they describe. Links are not followed. */
import { lstat, readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { OperatorError } from '../../errors.ts'
import { explainFile } from '../files.ts'
import { fold } from './file-names.ts'
import type { Fields, Kind } from './objects.ts'
import { isFields } from './says.ts'
import { describeProblem } from './show-plan.ts'
import { ENDINGS, FOLDERS } from './write-folder.ts'
import { readYaml } from './yaml-file.ts'

/** Files are named by their paths in the folder, with `/`. */
export interface Existing {
  /** All that there are, folded. */
  names: Set<string>
  texts: Map<string, string>
  /** Which file describes which object. */
  files: Map<string, string>
  objects: Map<string, Fields>
  /** Of files that describe the same object as another one: that other one. */
  twice: Map<string, string>
  domains: unknown
}

export type Described = Exclude<Kind, 'domains'>

export const nothing = (): Existing => ({
  names: new Set(),
  texts: new Map(),
  files: new Map(),
  objects: new Map(),
  twice: new Map(),
  domains: null,
})

export const identify = (kind: Described, { name, source_name, type }: Fields): string =>
  JSON.stringify([kind, kind === 'connections' ? type : null, kind === 'sources' ? source_name : name])

export async function readExisting(folder: string): Promise<Existing> {
  const existing = nothing()
  for (const name of FOLDERS) {
    const entries = await readdir(path.join(folder, name), { withFileTypes: true }).catch(() => [])
    const found = await lstat(path.join(folder, name)).catch(() => null)
    if (!found?.isDirectory()) continue
    const files = entries.filter((entry) => entry.isFile() && ENDINGS[name].test(entry.name))
    for (const file of files.map((entry) => `${name}/${entry.name}`).sort()) {
      existing.names.add(fold(file))
      if (name !== 'manifests' && !file.endsWith('.py')) await add(existing, folder, name, file)
    }
  }
  await addDomains(existing, folder)
  return existing
}

async function add(existing: Existing, folder: string, kind: Described, file: string): Promise<void> {
  const value = await read(existing, folder, file)
  if (!isFields(value)) return
  existing.objects.set(file, value)
  const key = identify(kind, value)
  const other = existing.files.get(key)
  if (other !== undefined) existing.twice.set(file, other)
  else existing.files.set(key, file)
}

/** What a broken file describes is not known, so a second file of it could be written. */
async function read(existing: Existing, folder: string, file: string): Promise<unknown> {
  const text = await readFile(path.join(folder, file), 'utf8').catch((error: Error) => {
    throw new OperatorError(`${path.join(folder, file)} cannot be read: ${explainFile(error)}. Nothing was exported.`)
  })
  const { value, faults } = readYaml(path.join(folder, file), text)
  if (faults.length > 0)
    throw new OperatorError(
      `${describeProblem(faults[0]!).replace(/\.$/, '')}; correct the file or delete it. Nothing was exported.`,
    )
  existing.texts.set(file, text)
  return value
}

async function addDomains(existing: Existing, folder: string): Promise<void> {
  const place = path.join(folder, 'domains.yaml')
  const found = await lstat(place).catch(() => null)
  if (!found?.isFile()) return
  existing.domains = await read(existing, folder, 'domains.yaml')
}
