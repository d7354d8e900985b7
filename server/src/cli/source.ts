/**
 * `sluice source push` and `sluice source preview`: a custom source from a file, checked, tried and saved in a running
 * service. Findings are written as `file:line:column: severity: message`, with columns from 1 as editors count them.
 */
import { readJsonFile, readText } from './files.ts'
import { connectService, type ServiceClient } from './service-client.ts'
import { UsageError } from './usage.ts'

interface Finding {
  line: number
  column: number
  message: string
  severity: string
}

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

type Options = Record<string, string>

export async function pushSource(file: string, options: Options): Promise<number> {
  const code = await readText(file)
  const service = connectService()
  const checked = await validate(service, file, code)
  if (checked === null) return 1
  const sourceName = checked.extracted_source_name!
  const streams = `(streams: ${checked.extracted_streams!.join(', ')})`
  const all = await service.call<SavedSource[]>('GET', '/api/custom-sources')
  const found = all.find(({ source_name }) => source_name === sourceName)
  if (found === undefined) {
    const body = { name: options['--name'] ?? sourceName, source_name: sourceName, code }
    await service.call('POST', '/api/custom-sources', body)
    console.log(`created ${sourceName} ${streams}`)
    return 0
  }
  const place = `/api/custom-sources/${found.id}`
  const saved = await service.call<SavedSource>('GET', place)
  const name = options['--name']
  if (saved.code === code && name === undefined) {
    console.log(`${sourceName} already has this code ${streams}`)
    return 0
  }
  await service.call('PUT', place, { code, ...(name !== undefined && { name }) })
  const [newest] = await service.call<{ version: number }[]>('GET', `${place}/versions?limit=1`)
  console.log(`saved ${sourceName} as version ${newest?.version} ${streams}`)
  return 0
}

export async function previewSource(file: string, options: Options): Promise<number> {
  const code = await readText(file)
  const request = {
    code,
    ...(options['--max-records'] !== undefined && { max_records: readCount(options['--max-records']) }),
    ...(options['--config'] !== undefined && { config: await readJsonFile(options['--config']) }),
    ...(options['--authentication'] !== undefined && {
      authentication: await readJsonFile(options['--authentication']),
    }),
  }
  const service = connectService()
  const checked = await validate(service, file, code)
  if (checked === null) return 1
  const stream = options['--stream'] ?? chooseStream(checked)
  const preview = await service.call<Preview>('POST', '/api/custom-sources/preview', { ...request, stream })
  for (const line of preview.logs) console.error(line)
  const records = preview.success ? preview.records : preview.partial_records
  for (const record of records) console.log(JSON.stringify(record))
  const count = `${records.length} record${records.length === 1 ? '' : 's'}`
  if (preview.success) {
    console.error(`${count} of ${stream}`)
    return 0
  }
  console.error(`${place(file, preview.logs)}: error: ${preview.error} (after ${count} of ${stream})`)
  return 1
}

/** Null if the code is invalid; findings are printed either way. */
async function validate(service: ServiceClient, file: string, code: string): Promise<Validation | null> {
  const result = await service.call<Validation>('POST', '/api/custom-sources/validate', { code })
  for (const { line, column, severity, message } of [...result.errors, ...result.warnings])
    console.error(`${file}:${line}:${column + 1}: ${severity}: ${message}`)
  return result.valid ? result : null
}

function chooseStream({ extracted_streams }: Validation): string {
  const [first] = extracted_streams ?? []
  if (first === undefined || first === 'dynamic')
    throw new UsageError('The streams cannot be determined from the code; choose one with --stream')
  return first
}

/** The position in the author's file that an exception came from, by the last line of its traceback. */
function place(file: string, logs: string[]): string {
  const line = logs.findLast((each) => /File "source\.py", line \d+/.test(each))?.match(/line (\d+)/)?.[1]
  return line === undefined ? file : `${file}:${line}`
}

function readCount(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new UsageError(`--max-records must be a whole number, not ${text}`)
  return Number(text)
}
