/**
 * `sluice output RUN`: the output of a run, or what SQL says about it. A file is written beside its place and renamed
 * when it is whole, so that there is never half of one. The bytes are those of the output: they are not cleaned.
 */
import type { IncomingMessage } from 'node:http'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { OperatorError, UsageError } from '../errors.ts'
import { parseExactly } from '../json/parse-exactly.ts'
import { type Destination, openFile } from './download-file.ts'
import { findRun } from './find.ts'
import { type Options, readCount } from './options.ts'
import { createOutput, type Output } from './output.ts'
import { connectService, type Service } from './service.ts'
import { formatBytes, plural } from './words.ts'

const MOST_ROWS = 10_000
/** The beginning may take long: a file of the output may have to be put together first. */
const IDLE_MS = 300_000
const SHOW_MS = 250

export async function showOutput(given: string, options: Options): Promise<number> {
  const output = createOutput(options)
  const limit = readCount(options, '--limit', MOST_ROWS)
  const { '--sql': sql, '--output': file } = options
  if (sql === undefined && limit !== undefined)
    throw new UsageError('--limit is for --sql; an output is downloaded whole.')
  const service = await connectService(options)
  const { id } = await findRun(service, given)
  if (sql === undefined) return download(service, output, `/api/pipelines/runs/${id}/output`, file)
  const query = { sql, ...(limit && { limit }) }
  if (file === undefined) return showRows(service, output, id, query)
  const answer = await service.open('POST', `/api/pipelines/runs/${id}/query`, { body: { ...query, format: 'csv' } })
  await save(output, answer, file)
  if (answer.headers['x-truncated'] === 'true')
    output.note('There are more rows; ask for them with --limit (at most 10,000).')
  return 0
}

async function download(service: Service, output: Output, place: string, file: string | undefined): Promise<number> {
  const answer = await service.open('GET', place, { headers: { accept: '*/*' }, idleMs: IDLE_MS })
  // A terminal is no place for a file; without -o it gets the name that the service gives it.
  await save(output, answer, file ?? (output.terminal ? nameOf(answer) : '-'), file === undefined)
  return 0
}

/** The last part of the name alone: a service must not choose the folder. */
function nameOf(answer: IncomingMessage): string {
  const given = /filename="([^"]+)"/.exec(String(answer.headers['content-disposition'] ?? ''))?.[1] ?? 'output'
  const name = path
    .basename(given)
    .replace(/[^\w.-]/g, '_')
    .replace(/^\.+/, '')
  return name === '' ? 'output' : name
}

async function save(output: Output, answer: IncomingMessage, file: string, fresh = false): Promise<void> {
  if (file === '-') {
    await copy(answer, process.stdout, false)
    return
  }
  const destination = await openFile(file, fresh)
  try {
    const bytes = await copyShowing(output, answer, destination)
    await destination.keep()
    output.live('')
    if (output.json) output.data({ file, bytes })
    else if (output.terminal) output.line(`${file}: ${formatBytes(bytes)}`)
  } catch (error) {
    output.live('')
    await destination.discard()
    throw error
  }
}

async function copyShowing(output: Output, answer: IncomingMessage, { stream }: Destination): Promise<number> {
  const total = Number(answer.headers['content-length'] ?? Number.NaN)
  let [bytes, shownAt] = [0, 0]
  answer.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (output.json || performance.now() - shownAt < SHOW_MS) return
    shownAt = performance.now()
    const share = total > 0 ? ` of ${formatBytes(total)} (${Math.floor((bytes / total) * 100)} %)` : ''
    output.live(`${formatBytes(bytes)}${share}`)
  })
  await copy(answer, stream, true)
  return bytes
}

async function copy(answer: IncomingMessage, to: NodeJS.WritableStream, end: boolean): Promise<void> {
  try {
    await pipeline(answer, to, { end })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOSPC')
      throw new OperatorError(
        'There is no space left for the file, so nothing was kept; free some, or choose another disk with -o.',
      )
    throw new OperatorError(`The download broke off: ${message}. Nothing was kept; run the command again.`)
  }
}

interface Rows {
  columns: { name: string; type: string }[]
  rows: unknown[][]
  truncated: boolean
}

async function showRows(service: Service, output: Output, id: string, query: object): Promise<number> {
  const text = await service.text('POST', `/api/pipelines/runs/${id}/query`, query)
  if (output.json) output.raw(text)
  else {
    const { columns, rows, truncated } = parseExactly(text) as Rows
    const right = (type: string) => /^(u?int|float|double|decimal)/.test(type)
    output.table(
      columns.map(({ name, type }) => ({ title: name, right: right(type) })),
      rows.map((row) =>
        row.map((value) => (typeof value === 'string' ? value : value === null ? '' : JSON.stringify(value))),
      ),
    )
    if (truncated) output.note('There are more rows; ask for them with --limit (at most 10,000).')
    else if (output.terminal) output.note({ style: 'dim', text: plural(rows.length, 'row') })
  }
  return 0
}
