/** `sluice runs` and `sluice show`: what ran and how it went. */
import { findPipeline, findReplay, findRun, isId, type PipelineItem, type Replay, type Run } from './find.ts'
import { type Options, readChoice, readCount } from './options.ts'
import { createOutput, type Output, type Part } from './output.ts'
import { connectService, type Service } from './service.ts'
import { ServiceError } from './service-errors.ts'
import { formatBytes, formatCount, formatDuration, formatTime, STATUSES, showStatus } from './words.ts'

type ListedRun = Pick<Run, 'id' | 'status' | 'triggered_by' | 'created_at' | 'started_at' | 'finished_at' | 'error'> & {
  pipeline_name?: string
}

const SHOWN = 20

export async function listRuns(pipeline: string | undefined, options: Options): Promise<number> {
  const output = createOutput(options)
  const status = readChoice(options, '--status', STATUSES)
  const limit = readCount(options, '--limit', 1000) ?? SHOWN
  const service = await connectService(options)
  const query = new URLSearchParams({ limit: String(limit), ...(status && { status }) })
  const place =
    pipeline === undefined ? '/api/runs' : `/api/pipelines/${(await findPipeline(service, pipeline)).id}/runs`
  const runs = await service.call<ListedRun[]>('GET', `${place}?${query}`)
  if (output.json) output.data(runs)
  else if (runs.length === 0) output.note('There are no runs to show.')
  else await showRuns(service, output, runs)
  return 0
}

/** Of this many replays it is looked up what they replay. */
const LOOKED_UP = 20
const ID_SHOWN = 8

/** Those of one pipeline do not repeat its name. */
async function showRuns(service: Service, output: Output, runs: ListedRun[]): Promise<void> {
  const replays = runs.filter(({ triggered_by }) => triggered_by === 'replay').slice(0, LOOKED_UP)
  const found = new Map(
    await Promise.all(replays.map(async (run) => [run.id, await findReplay(service, run)] as const)),
  )
  const named = runs[0]!.pipeline_name !== undefined
  output.table(
    [
      { title: 'RUN', whole: true },
      ...(named ? [{ title: 'PIPELINE' }] : []),
      { title: 'STATUS', whole: true },
      { title: 'CREATED', whole: true, extra: true },
      { title: 'TOOK', whole: true, extra: true },
      { title: 'BY', whole: true, extra: true },
      { title: 'ERROR', extra: true },
    ],
    runs.map((run) => [
      run.id,
      ...(named ? [{ style: 'bold', text: run.pipeline_name ?? '' } as const] : []),
      showStatus(run.status),
      formatTime(run.created_at),
      showDuration(run),
      sayTrigger(run, found.get(run.id) ?? null),
      run.error ?? '',
    ]),
  )
}

/** Short, beside the ids of the runs themselves. */
const sayTrigger = ({ triggered_by }: ListedRun, replay: Replay | null): string =>
  replay === null
    ? triggered_by
    : `replay of ${replay.replays.slice(0, ID_SHOWN)}${replay.other_destination ? ' elsewhere' : ''}`

const sayReplay = ({ replays, other_destination }: Replay): [name: string, value: Part][] => [
  ['replays', `run ${replays}${other_destination ? ', into another destination' : ''}`],
]

const showDuration = ({ started_at, finished_at }: Pick<Run, 'started_at' | 'finished_at'>): string =>
  started_at === null
    ? '–'
    : formatDuration((finished_at === null ? Date.now() : Date.parse(finished_at)) - Date.parse(started_at))

interface Pipeline {
  id: string
  name: string
  schedule: string | null
  timezone: string | null
  enabled: boolean
  domain_id: string | null
  config: { source?: Endpoint; destination?: Endpoint; sync?: { mode?: string; write?: string } }
}

interface Endpoint {
  name?: string
  stream?: string
  saved_id?: string
}

/** A pipeline by name or id, or a run by id. */
export async function show(given: string, options: Options): Promise<number> {
  const output = createOutput(options)
  const service = await connectService(options)
  const pipeline = await readPipeline(service, given)
  if (pipeline === null) return showRun(service, output, await findRun(service, given))
  const runs = await service.call<Run[]>('GET', `/api/pipelines/${pipeline.id}/runs?limit=5`)
  if (output.json) {
    output.data({ ...pipeline, runs })
    return 0
  }
  const [item] = await service
    .call<PipelineItem[]>(
      'GET',
      `/api/pipelines?${new URLSearchParams({ q: pipeline.name.slice(0, 200), limit: '100' })}`,
    )
    .then((found) => found.filter(({ id }) => id === pipeline.id))
  const { config } = pipeline
  showFields(output, [
    ['pipeline', { style: 'bold', text: pipeline.name }],
    ['id', pipeline.id],
    ['domain', item?.domain_name ?? '–'],
    [
      'source',
      `${item?.source_name ?? config.source?.name ?? '?'}, stream ${item?.stream ?? config.source?.stream ?? '?'}`,
    ],
    ['destination', item?.destination_name ?? config.destination?.name ?? '?'],
    ['sync', [config.sync?.mode ?? 'full_refresh', config.sync?.write].filter(Boolean).join(', ')],
    ['schedule', pipeline.schedule === null ? '–' : [pipeline.schedule, pipeline.timezone].filter(Boolean).join(' ')],
    ['enabled', pipeline.enabled ? 'yes' : 'no'],
    ['next run', formatTime(item?.next_run_at ?? null)],
  ])
  if (runs.length > 0) {
    output.line('')
    await showRuns(service, output, runs)
  }
  return 0
}

/** Null if no pipeline has this id; a name that none has is an error of its own. */
async function readPipeline(service: Service, given: string): Promise<Pipeline | null> {
  try {
    const { id } = await findPipeline(service, given)
    return await service.call<Pipeline>('GET', `/api/pipelines/${id}`)
  } catch (error) {
    if (isId(given) && error instanceof ServiceError && error.status === 404) return null
    throw error
  }
}

async function showRun(service: Service, output: Output, run: Run): Promise<number> {
  if (output.json) {
    output.data(run)
    return 0
  }
  const replay = await findReplay(service, run)
  showFields(output, [
    ['run', { style: 'bold', text: run.id }],
    ['pipeline', run.pipeline_id],
    ['status', showStatus(run.status)],
    ['triggered by', run.triggered_by],
    ...(replay === null ? [] : sayReplay(replay)),
    ['created', formatTime(run.created_at)],
    ['took', showDuration(run)],
    ['attempt', String(run.attempt)],
    ['read', `${formatCount(run.records_read)} records`],
    ['written', `${formatCount(run.records_written)} records, ${formatBytes(run.bytes_written)}`],
    ...(run.records_quarantined > 0
      ? [['refused', `${formatCount(run.records_quarantined)} records, in the quarantine`] as [string, Part]]
      : []),
    ['output', run.output_file_size === null ? '–' : formatBytes(run.output_file_size)],
    ...(run.error === null ? [] : [['error', { style: 'red', text: run.error }] as [string, Part]]),
    ['console', `${service.url}/runs/${run.id}`],
  ])
  return 0
}

function showFields(output: Output, fields: [name: string, value: Part][]): void {
  const width = Math.max(...fields.map(([name]) => name.length)) + 2
  for (const [name, value] of fields) output.line({ style: 'dim', text: name.padEnd(width) }, value)
}
