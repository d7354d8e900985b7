/**
 * `sluice export DIR`: the organization, or one domain, as files. A file that describes an object already is brought up to date
 * in its place, whatever its name is.
 */
import type { Options } from '../options.ts'
import { createOutput, type Output } from '../output.ts'
import { connectService } from '../service.ts'
import { plural } from '../words.ts'
import { type Described, type Existing, identify, nothing, readExisting } from './existing.ts'
import { fold, makeFileNames, withHash } from './file-names.ts'
import type { Fields, Kind, Objects } from './objects.ts'
import { isNamed, updateList, updateObject } from './update-yaml.ts'
import { type Files, removeFiles, writeFolder } from './write-folder.ts'
import { toYaml } from './yaml-text.ts'

interface Exported {
  objects: Partial<Objects>
  omitted: Kind[]
}

export async function exportFolder(folder: string, options: Options): Promise<number> {
  const output = createOutput(options)
  const service = await connectService(options)
  const domain = options['--domain']
  const prune = options['--prune'] !== undefined
  const query = domain === undefined ? '' : `?${new URLSearchParams({ domain })}`
  const { objects, omitted } = await service.call<Exported>('GET', `/api/changes/export${query}`)
  const existing = await readExisting(folder)
  const isWhole = domain === undefined && !omitted.includes('domains')
  const files = describeFiles(objects, `${service.url}/schemas`, existing, prune && isWhole)
  const { written, left } = await writeFolder(folder, files)
  const others = left.filter((file) => !existing.twice.has(file) && isConcerned(existing, file, { domain, omitted }))
  if (prune) await removeFiles(folder, others)
  if (output.json) output.data({ files: [...files.keys()], written, others, omitted })
  else {
    for (const kind of omitted)
      output.note({ style: 'yellow', text: `You may not read ${kind}, so they are left out.` })
    sayLeft(output, { existing, others, prune, domains: isWhole ? findOtherDomains(objects, existing) : [] })
    output.line(
      `${plural(files.size, 'file')} in ${folder}, ${written === 0 ? 'none of them changed' : `${written} written`}`,
    )
  }
  return 0
}

/** An export of one domain says nothing about the files of others, and one without connections nothing about theirs. */
function isConcerned(
  { objects }: Existing,
  file: string,
  { domain, omitted }: { domain: string | undefined; omitted: readonly Kind[] },
): boolean {
  const kind = file.split('/')[0]!.replace('manifests', 'sources') as Kind
  if (omitted.includes(kind)) return false
  if (domain === undefined) return true
  const described = kind === 'pipelines' ? objects.get(file)?.domain : undefined
  return typeof described === 'string' && described.trim() === domain.trim()
}

const findOtherDomains = ({ domains = [] }: Partial<Objects>, { domains: written }: Existing): string[] =>
  (Array.isArray(written) ? (written as unknown[]) : [])
    .filter((item) => !domains.some((domain) => isNamed(item, domain)))
    .map((item) => String((item as Fields | null)?.name))

interface Left {
  existing: Existing
  others: string[]
  domains: string[]
  prune: boolean
}

function sayLeft(output: Output, { existing, others, domains, prune }: Left): void {
  const warn = (text: string) => output.note({ style: 'yellow', text })
  for (const [file, other] of existing.twice) warn(`${file} describes the same as ${other}; delete one of them.`)
  for (const file of others)
    if (prune) output.note(`Removed ${file}.`)
    else warn(`${file} describes nothing that exists; delete it, or use --prune.`)
  for (const name of domains)
    if (prune) output.note(`Removed ${name} from domains.yaml.`)
    else warn(`domains.yaml has ${name}, which does not exist; delete it there, or use --prune.`)
}

/** The files of an organization, by their paths. */
export function describeFiles(
  objects: Partial<Objects>,
  schemas: string,
  existing: Existing = nothing(),
  prune = false,
): Files {
  const files: Files = new Map()
  const { domains = [], sources = [], connections = [], pipelines = [] } = objects
  const domainsText = existing.texts.get('domains.yaml')
  const updated = domainsText === undefined ? null : updateList(domainsText, domains, prune)
  if (domains.length > 0) files.set('domains.yaml', updated ?? toYaml(domains, `${schemas}/domains.json`))
  else if (updated !== null) files.set('domains.yaml', updated)
  const add = (kind: Described, schema: string, all: Fields[], nameOf: (object: Fields) => string) => {
    const names = makeFileNames(all.map(nameOf))
    all.forEach((object, index) => {
      const { code, ...rest } = object
      const known = existing.files.get(identify(kind, object))
      const base = known?.replace(/^[^/]*\/|\.ya?ml$/g, '') ?? findFree(kind, names[index]!, nameOf(object), existing)
      const text = known === undefined ? null : updateObject(existing.texts.get(known)!, rest)
      files.set(known ?? `${kind}/${base}.yaml`, text ?? toYaml(rest, `${schemas}/${schema}.json`))
      if (code === undefined) return
      const ending = existing.names.has(fold(`manifests/${base}.yml`)) ? 'yml' : 'yaml'
      files.set(object.language === 'manifest' ? `manifests/${base}.${ending}` : `${kind}/${base}.py`, String(code))
    })
  }
  add('sources', 'source', sources, ({ source_name }) => String(source_name))
  // A source and a destination may have the same name.
  const names = connections.map(({ name }) => name)
  const isTwice = (name: unknown) => names.indexOf(name) !== names.lastIndexOf(name)
  add('connections', 'connection', connections, ({ name, type }) =>
    isTwice(name) ? `${name} (${type})` : String(name),
  )
  add('pipelines', 'pipeline', pipelines, ({ name }) => String(name))
  return files
}

/** A file of that name may describe something else. */
const findFree = (kind: Described, base: string, name: string, { names }: Existing): string =>
  ['yaml', 'yml'].some((ending) => names.has(fold(`${kind}/${base}.${ending}`))) ? withHash(base, name) : base
