/** `sluice run`, `backfill` and `replay` start a run, and may follow it; `sluice cancel` ends one. */
import { UsageError } from '../errors.ts'
import { readJsonFile } from './files.ts'
import { findPipeline, findRun, isId, type Run } from './find.ts'
import { followToEnd } from './follow-run.ts'
import type { Options } from './options.ts'
import { createOutput } from './output.ts'
import { connectService, type Service } from './service.ts'
import { formatTime } from './words.ts'

export async function runPipeline(given: string, options: Options): Promise<number> {
  const service = await connectService(options)
  const { id, name } = await findPipeline(service, given)
  return begin(service, options, name, `/api/pipelines/${id}/run`)
}

export async function backfill(given: string, options: Options): Promise<number> {
  const range = readRange(options)
  const service = await connectService(options)
  const { id, name } = await findPipeline(service, given)
  return begin(service, options, name, `/api/pipelines/${id}/backfill`, range)
}

/** Loads the kept output of a run again, without asking the source. */
export async function replay(given: string, options: Options): Promise<number> {
  const { '--destination': file } = options
  const body = file === undefined ? {} : { destination: await readJsonFile(file) }
  const service = await connectService(options)
  const { id } = await findRun(service, given)
  return begin(service, options, `Replay of ${id}`, `/api/pipelines/runs/${id}/replay`, body)
}

async function begin(service: Service, options: Options, name: string, place: string, body?: unknown): Promise<number> {
  const output = createOutput(options)
  const run = await service.call<Pick<Run, 'id' | 'status'>>('POST', place, body)
  if (options['--follow'] !== undefined) return followToEnd(service, output, { id: run.id, name })
  if (output.json) output.data(run)
  else output.line(`${name}: run ${run.id} was started. Follow it with: sluice logs -f ${run.id}`)
  return 0
}

/** A number is sent as one if JSON holds it exactly; the service compares values of the same kind. */
function readRange({ '--from': from, '--to': to }: Options): { from: string | number; to: string | number } {
  if (from === undefined || to === undefined)
    throw new UsageError(
      'sluice backfill needs --from and --to: the first value of the cursor, and the one to stop before.',
    )
  const isNumber = (text: string) => /^-?\d+(\.\d+)?$/.test(text) && String(Number(text)) === text
  return isNumber(from) && isNumber(to) ? { from: Number(from), to: Number(to) } : { from, to }
}

export async function cancel(given: string, options: Options): Promise<number> {
  const output = createOutput(options)
  const service = await connectService(options)
  const id = isId(given) ? (await findRun(service, given)).id : await findUnfinished(service, given)
  const answer = await service.call<object>('POST', `/api/pipelines/runs/${id}/cancel`)
  if (output.json) output.data({ id, ...answer })
  else output.line(`Run ${id} was cancelled. What it had already committed stays.`)
  return 0
}

/** Of a pipeline with several unfinished runs none is chosen by chance. */
async function findUnfinished(service: Service, given: string): Promise<string> {
  const pipeline = await findPipeline(service, given)
  const runs = await service.call<Run[]>('GET', `/api/pipelines/${pipeline.id}/runs?limit=100`)
  const unfinished = runs.filter(({ finished_at }) => finished_at === null)
  if (unfinished.length === 1) return unfinished[0]!.id
  if (unfinished.length === 0)
    throw new UsageError(
      `No run of '${pipeline.name}' is waiting or running, so there is nothing to cancel; see sluice runs.`,
    )
  const list = unfinished.map(({ id, status, created_at }) => `  ${id}  ${status}  ${formatTime(created_at)}`)
  throw new UsageError(`'${pipeline.name}' has ${unfinished.length} unfinished runs; name one:\n${list.join('\n')}`)
}
