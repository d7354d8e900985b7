/**
 * `sluice source push` and `sluice source preview`: a custom source from a file, checked, tried and saved in a running
 * service.
 */
import { watchFile } from 'node:fs'
import { isExpected, UsageError } from '../errors.ts'
import { readJsonFile, readText } from './files.ts'
import { type Finding, findPlace, showFindings } from './findings.ts'
import { type Options, readCount } from './options.ts'
import { createOutput, type Output } from './output.ts'
import { connectService, type Service } from './service.ts'
import { formatTime, plural } from './words.ts'

interface Validation {
  valid: boolean
  errors: Finding[]
  warnings: Finding[]
  extracted_source_name: string | null
  extracted_streams: string[] | null
}

interface SavedSource {
  id: string
  source_name: string
  code?: string
}

interface Preview {
  success: boolean
  records: object[]
  partial_records: object[]
  error: string | null
  logs: string[]
}

export async function pushSource(file: string, options: Options): Promise<number> {
  const output = createOutput(options)
  const code = await readText(file)
  const service = await connectService(options)
  const checked = await validate(service, output, file, code)
  if (checked === null) return 1
  const sourceName = checked.extracted_source_name!
  const streams = checked.extracted_streams!
  const said = (result: string, words: string, version: number | null): number => {
    if (output.json) output.data({ source_name: sourceName, result, version, streams })
    else output.line(`${words} (streams: ${streams.join(', ')})`)
    return 0
  }
  const all = await service.call<SavedSource[]>('GET', '/api/custom-sources')
  const found = all.find(({ source_name }) => source_name === sourceName)
  if (found === undefined) {
    const body = { name: options['--name'] ?? sourceName, source_name: sourceName, code }
    await service.call('POST', '/api/custom-sources', body)
    return said('created', `created ${sourceName}`, 1)
  }
  const place = `/api/custom-sources/${found.id}`
  const saved = await service.call<SavedSource>('GET', place)
  const name = options['--name']
  if (saved.code === code && name === undefined) return said('unchanged', `${sourceName} already has this code`, null)
  await service.call('PUT', place, { code, ...(name !== undefined && { name }) })
  const [newest] = await service.call<{ version: number }[]>('GET', `${place}/versions?limit=1`)
  return said('saved', `saved ${sourceName} as version ${newest?.version}`, newest?.version ?? null)
}

const MOST_RECORDS = 1000

export async function previewSource(file: string, options: Options): Promise<number> {
  const output = createOutput(options)
  const most = readCount(options, '--max-records', MOST_RECORDS)
  const preview = async (): Promise<number> => {
    const code = await readText(file)
    const request = {
      code,
      ...(most !== undefined && { max_records: most }),
      ...(options['--config'] !== undefined && { config: await readJsonFile(options['--config']) }),
      ...(options['--authentication'] !== undefined && {
        authentication: await readJsonFile(options['--authentication']),
      }),
    }
    const service = await connectService(options)
    const checked = await validate(service, output, file, code)
    if (checked === null) return 1
    const stream = options['--stream'] ?? chooseStream(checked)
    const answer = await service.call<Preview>('POST', '/api/custom-sources/preview', { ...request, stream })
    return showPreview(output, file, { code, stream, answer })
  }
  return options['--watch'] === undefined ? preview() : watch(output, file, preview)
}

/** The result is kept for the exit code: 1 if the source failed. */
function showPreview(
  output: Output,
  file: string,
  { code, stream, answer }: { code: string; stream: string; answer: Preview },
): number {
  for (const line of answer.logs) output.note({ style: 'dim', text: line })
  const records = answer.success ? answer.records : answer.partial_records
  for (const record of records) output.data(record)
  const count = plural(records.length, 'record')
  if (answer.success) {
    output.note(`${count} of ${stream}`)
    return 0
  }
  const place = findPlace(code, answer.logs)
  const where = place === null ? file : `${file}:${place.line}:${place.column + 1}`
  output.note(`${where}: `, { style: 'red', text: 'error' }, `: ${answer.error} (after ${count} of ${stream})`)
  return 1
}

/** How often the file is looked at: editors replace files in too many ways for notifications of the system. */
const LOOK_MS = 200

/** Again at every save, until Ctrl+C. What is wrong is shown, and the next save is another chance. */
function watch(output: Output, file: string, preview: () => Promise<number>): Promise<never> {
  return new Promise((_, reject) => {
    let [busy, again] = [false, false]
    const run = async (): Promise<void> => {
      again = busy
      if (busy) return
      busy = true
      output.note({ style: 'dim', text: `── ${formatTime(new Date().toISOString())} ${file}` })
      try {
        await preview()
      } catch (error) {
        if (!isExpected(error)) return reject(error)
        output.note({ style: 'red', text: error.message })
      }
      busy = false
      if (again) return run()
      output.note({ style: 'dim', text: 'Waiting for the next save; Ctrl+C ends.' })
    }
    watchFile(file, { interval: LOOK_MS }, ({ mtimeMs }, before) => {
      if (mtimeMs !== before.mtimeMs) void run()
    })
    void run()
  })
}

/** Null if the code is invalid; findings are printed either way. */
async function validate(service: Service, output: Output, file: string, code: string): Promise<Validation | null> {
  const result = await service.call<Validation>('POST', '/api/custom-sources/validate', { code })
  showFindings(output, file, [...result.errors, ...result.warnings])
  return result.valid ? result : null
}

function chooseStream({ extracted_streams }: Validation): string {
  const [first] = extracted_streams ?? []
  if (first === undefined || first === 'dynamic')
    throw new UsageError('The streams cannot be determined from the code; choose one with --stream.')
  return first
}
