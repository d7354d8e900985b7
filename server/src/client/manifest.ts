/** `sluice manifest push FILE`: a manifest, checked and saved as a source of the service. */
import path from 'node:path'
import { UsageError } from '../errors.ts'
import { readText } from './files.ts'
import { type Finding, showFindings } from './findings.ts'
import type { Options } from './options.ts'
import { createOutput } from './output.ts'
import { connectService } from './service.ts'

interface Validation {
  valid: boolean
  errors: Finding[]
  warnings: Finding[]
  extracted_streams: string[] | null
}

interface SavedManifest {
  id: string
  source_name: string
  manifest?: string
}

export async function pushManifest(file: string, options: Options): Promise<number> {
  const output = createOutput(options)
  const sourceName = options['--source-name'] ?? nameAfter(file)
  const manifest = await readText(file)
  const service = await connectService(options)
  const { valid, errors, warnings, extracted_streams } = await service.call<Validation>(
    'POST',
    '/api/manifests/validate',
    { manifest },
  )
  showFindings(output, file, [...errors, ...warnings])
  if (!valid) return 1
  const streams = extracted_streams ?? []
  const said = (result: string, words: string, version: number | null): number => {
    if (output.json) output.data({ source_name: sourceName, result, version, streams })
    else output.line(`${words} (streams: ${streams.join(', ')})`)
    return 0
  }
  const name = options['--name']
  const all = await service.call<SavedManifest[]>('GET', '/api/manifests')
  const found = all.find(({ source_name }) => source_name === sourceName)
  if (found === undefined) {
    await service.call('POST', '/api/manifests', { name: name ?? sourceName, source_name: sourceName, manifest })
    return said('created', `created ${sourceName}`, 1)
  }
  const place = `/api/manifests/${found.id}`
  const saved = await service.call<SavedManifest>('GET', place)
  if (saved.manifest === manifest && name === undefined)
    return said('unchanged', `${sourceName} already is this manifest`, null)
  await service.call('PUT', place, { manifest, ...(name !== undefined && { name }) })
  const [newest] = await service.call<{ version: number }[]>('GET', `${place}/versions?limit=1`)
  return said('saved', `saved ${sourceName} as version ${newest?.version}`, newest?.version ?? null)
}

/** A manifest has no name of its own. Airbyte keeps each as `source-shop/manifest.yaml`. */
function nameAfter(file: string): string {
  const base = path.basename(file).replace(/\.ya?ml$/i, '')
  const name = base === 'manifest' ? path.basename(path.dirname(path.resolve(file))) : base
  if (!/^[A-Za-z][A-Za-z0-9_.-]{0,99}$/.test(name))
    throw new UsageError(`'${name}' is no name for a source; give one with --source-name.`)
  return name
}
