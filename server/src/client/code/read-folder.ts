/**
 * Reads a folder of files into the objects that the service takes. Everything wrong with the files is collected, with file,
 * line and column; what the service finds later is mapped to the same places.
 */
import { lstat, readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { OperatorError } from '../../errors.ts'
import { explainFile } from '../files.ts'
import type { Fields, Kind, Objects, Problem } from './objects.ts'
import { type Missing, resolveReferences } from './resolve.ts'
import type { Variables } from './variables.ts'
import { ENDINGS, FOLDERS } from './write-folder.ts'
import { type Place, readYaml, type YamlFile } from './yaml-file.ts'

export type LocatedProblem = Partial<Place> & { message: string }

export interface ReadFolder {
  objects: Objects
  problems: LocatedProblem[]
  /** References that have no value. */
  missing: Missing[]
  locate(problem: Problem): LocatedProblem
}

/** Where an object was read from. */
interface Origin {
  yaml: YamlFile
  steps: (string | number)[]
  /** The file of its code. */
  code?: string
}

/** Generous: the service has its own limits. */
const MOST_FILES = 20_000
const MOST_BYTES = 4 * 1024 * 1024

export async function readFolder(folder: string, variables: Variables): Promise<ReadFolder> {
  const reader = new FolderReader(folder, variables)
  await reader.read()
  return reader
}

class FolderReader implements ReadFolder {
  objects: Objects = { domains: [], sources: [], connections: [], pipelines: [] }
  problems: LocatedProblem[] = []
  missing: Missing[] = []
  readonly #folder: string
  readonly #variables: Variables
  readonly #origins: Record<Kind, Origin[]> = { domains: [], sources: [], connections: [], pipelines: [] }
  #files = 0

  constructor(folder: string, variables: Variables) {
    this.#folder = folder
    this.#variables = variables
  }

  async read(): Promise<void> {
    const domains = await this.#readText('domains.yaml', true)
    if (domains !== null) this.#addDomains(readYaml(this.#shown('domains.yaml'), domains))
    const listed: Record<string, string[]> = {}
    for (const name of FOLDERS) listed[name] = await this.#list(name)
    if (domains === null && this.#files === 0)
      throw new OperatorError(
        `${this.#folder} has neither domains.yaml nor files in ${FOLDERS.join('/, ')}/; sluice export writes such a folder.`,
      )
    for (const file of listed.sources!.filter((each) => !each.endsWith('.py'))) await this.#addSource(file, listed)
    this.#requireUsed(listed)
    for (const kind of ['connections', 'pipelines'] as const)
      for (const file of listed[kind]!) await this.#addFile(kind, `${kind}/${file}`)
  }

  locate({ pointer, message, line, column }: Problem): LocatedProblem {
    const [root, kind, index, ...steps] = pointer.split('/').slice(1).map(readStep)
    const origin = root === 'objects' ? this.#origins[kind as Kind]?.[Number(index)] : undefined
    if (!origin) return { message: pointer === '/prune' ? `--prune: ${message}` : message }
    if (steps[0] === 'code' && origin.code !== undefined)
      return { file: origin.code, line: line ?? 1, column: (column ?? 0) + 1, message }
    const lacking = this.missing.find(
      (each) => each.kind === kind && each.index === Number(index) && each.pointer === `/${steps.join('/')}`,
    )
    const place = origin.yaml.locate([...origin.steps, ...steps], /^unknown field/.test(message))
    if (lacking && /is a mask/.test(message)) return { ...place, message: lacking.message }
    return { ...place, message: steps.length === 0 ? message : `${nameOf(steps)}: ${message}` }
  }

  #shown(file: string): string {
    return path.join(this.#folder, file)
  }

  async #list(name: (typeof FOLDERS)[number]): Promise<string[]> {
    const place = path.join(this.#folder, name)
    const found = await lstat(place).catch(() => null)
    if (found === null) return []
    if (!found.isDirectory()) {
      this.problems.push({
        file: this.#shown(name),
        line: 1,
        column: 1,
        message: 'is not a folder, and links are not followed; put the folder itself here',
      })
      return []
    }
    const entries = await readdir(place, { withFileTypes: true })
    const files = entries.filter((entry) => ENDINGS[name].test(entry.name)).map((entry) => entry.name)
    this.#files += files.length
    if (this.#files > MOST_FILES)
      throw new OperatorError(
        `${this.#folder} has more than ${MOST_FILES} files; keep each domain in a folder of its own, and use --domain.`,
      )
    return files.sort()
  }

  /** Null if there is none, or it cannot be read. */
  async #readText(file: string, optional = false): Promise<string | null> {
    const place = this.#shown(file)
    const refuse = (message: string) => {
      this.problems.push({ file: place, line: 1, column: 1, message })
      return null
    }
    const found = await lstat(place).catch(() => null)
    if (found === null)
      return optional ? null : refuse('does not exist; write the code there, or delete its description')
    if (!found.isFile()) return refuse('is not a file, and links are not followed; put the file itself here')
    if (found.size > MOST_BYTES) return refuse(`is larger than ${MOST_BYTES / 1024 / 1024} MB; make it smaller`)
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(await readFile(place))
    } catch (error) {
      return refuse(
        error instanceof TypeError ? 'is not UTF-8; save it in that encoding' : `cannot be read: ${explainFile(error)}`,
      )
    }
  }

  #addDomains(yaml: YamlFile): void {
    this.problems.push(...yaml.faults)
    if (yaml.faults.length > 0 || yaml.value === null) return
    if (!Array.isArray(yaml.value)) {
      this.problems.push({ ...yaml.locate([]), message: 'must be a list of domains, each with a name' })
      return
    }
    yaml.value.forEach((value, index) => {
      if (this.#isObject(value, yaml, [index])) this.#add('domains', value, { yaml, steps: [index] })
    })
  }

  async #addSource(file: string, listed: Record<string, string[]>): Promise<void> {
    const yaml = await this.#readObject(`sources/${file}`)
    if (yaml === null) return
    const base = file.replace(/\.ya?ml$/, '')
    const value = yaml.value as Fields
    const manifest = listed.manifests!.find((each) => each.replace(/\.ya?ml$/, '') === base)
    const code = value.language === 'manifest' ? `manifests/${manifest ?? `${base}.yaml`}` : `sources/${base}.py`
    const text = await this.#readText(code)
    if (Object.hasOwn(value, 'code'))
      this.problems.push({ ...yaml.locate(['code']), message: `the code is in ${code}, not here` })
    else if (text !== null) this.#add('sources', { ...value, code: text }, { yaml, steps: [], code: this.#shown(code) })
  }

  /** Code without its description would be overlooked. */
  #requireUsed(listed: Record<string, string[]>): void {
    const described = new Set(this.#origins.sources.map(({ code }) => code))
    const known = new Set(
      listed.sources!.filter((file) => !file.endsWith('.py')).map((file) => file.replace(/\.ya?ml$/, '')),
    )
    const code = [
      ...listed.sources!.filter((file) => file.endsWith('.py')).map((file) => `sources/${file}`),
      ...listed.manifests!.map((file) => `manifests/${file}`),
    ]
    for (const file of code) {
      const base = path.posix.basename(file).replace(/\.(py|ya?ml)$/, '')
      if (described.has(this.#shown(file)) || known.has(base)) continue
      this.problems.push({
        file: this.#shown(file),
        line: 1,
        column: 1,
        message: `needs sources/${base}.yaml beside it, with source_name and name`,
      })
    }
  }

  async #addFile(kind: 'connections' | 'pipelines', file: string): Promise<void> {
    const yaml = await this.#readObject(file)
    if (yaml !== null) this.#add(kind, yaml.value as Fields, { yaml, steps: [] })
  }

  async #readObject(file: string): Promise<YamlFile | null> {
    const text = await this.#readText(file)
    if (text === null) return null
    const yaml = readYaml(this.#shown(file), text)
    this.problems.push(...yaml.faults)
    return yaml.faults.length === 0 && this.#isObject(yaml.value, yaml, []) ? yaml : null
  }

  #isObject(value: unknown, yaml: YamlFile, steps: (string | number)[]): value is Fields {
    const fits = typeof value === 'object' && value !== null && !Array.isArray(value)
    if (!fits) this.problems.push({ ...yaml.locate(steps), message: 'must be a map of fields, such as name: …' })
    return fits
  }

  /** Only configs have references: names and code are what they are. */
  #add(kind: Kind, value: Fields, origin: Origin): void {
    const index = this.objects[kind].length
    this.#origins[kind].push(origin)
    const resolved = Object.hasOwn(value, 'config')
      ? resolveReferences(value.config, ['config'], this.#variables)
      : null
    if (resolved) {
      this.missing.push(...resolved.missing.map((each) => ({ ...each, kind, index })))
      for (const { steps, message } of resolved.faults)
        this.problems.push({ ...origin.yaml.locate([...origin.steps, ...steps]), message })
    }
    this.objects[kind].push(resolved ? { ...value, config: resolved.value } : value)
  }
}

/** The field, with its place in a list: `resources[0]`. */
function nameOf(steps: readonly string[]): string {
  const at = steps.findLastIndex((step) => !/^\d+$/.test(step))
  return `${steps[Math.max(0, at)]}${steps
    .slice(at + 1)
    .map((index) => `[${index}]`)
    .join('')}`
}

const readStep = (step: string): string => step.replaceAll('~1', '/').replaceAll('~0', '~')
