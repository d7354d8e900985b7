/** `sluice export DIR`: the organization, or one domain, as files. */
import type { Options } from '../options.ts'
import { createOutput } from '../output.ts'
import { connectService } from '../service.ts'
import { plural } from '../words.ts'
import { makeFileNames } from './file-names.ts'
import type { Fields, Kind, Objects } from './objects.ts'
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
  const query = domain === undefined ? '' : `?${new URLSearchParams({ domain })}`
  const { objects, omitted } = await service.call<Exported>('GET', `/api/changes/export${query}`)
  const files = describeFiles(objects, `${service.url}/schemas`)
  const { written, left } = await writeFolder(folder, files)
  if (options['--prune'] !== undefined) await removeFiles(folder, left)
  if (output.json) output.data({ files: [...files.keys()], written, others: left, omitted })
  else {
    for (const kind of omitted)
      output.note({ style: 'yellow', text: `You may not read ${kind}, so they are left out.` })
    for (const file of left)
      output.note(
        options['--prune'] === undefined
          ? { style: 'yellow', text: `${file} describes nothing that exists; delete it, or use --prune.` }
          : `Removed ${file}.`,
      )
    output.line(
      `${plural(files.size, 'file')} in ${folder}, ${written === 0 ? 'none of them changed' : `${written} written`}`,
    )
  }
  return 0
}

/** The files of an organization, by their paths. */
export function describeFiles(objects: Partial<Objects>, schemas: string): Files {
  const files: Files = new Map()
  const { domains = [], sources = [], connections = [], pipelines = [] } = objects
  if (domains.length > 0) files.set('domains.yaml', toYaml(domains, `${schemas}/domains.json`))
  const add = (folder: string, schema: string, all: Fields[], nameOf: (object: Fields) => string) => {
    const names = makeFileNames(all.map(nameOf))
    all.forEach((object, index) => {
      const { code, ...rest } = object
      files.set(`${folder}/${names[index]}.yaml`, toYaml(rest, `${schemas}/${schema}.json`))
      if (code === undefined) return
      files.set(
        object.language === 'manifest' ? `manifests/${names[index]}.yaml` : `${folder}/${names[index]}.py`,
        String(code),
      )
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
