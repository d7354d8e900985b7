/** `sluice pipelines`: what there is, and how it is. */
import type { PipelineItem } from './find.ts'
import { type Options, readChoice, readCount } from './options.ts'
import { createOutput } from './output.ts'
import { connectService } from './service.ts'
import { formatTime, STATUSES, showStatus } from './words.ts'

const SHOWN = 100

export async function listPipelines(options: Options): Promise<number> {
  const output = createOutput(options)
  const status = readChoice(options, '--status', STATUSES)
  const limit = readCount(options, '--limit', 1000) ?? SHOWN
  const service = await connectService(options)
  const query = new URLSearchParams({
    limit: String(limit),
    sort: 'name',
    ...(status && { status }),
    ...(options['--search'] !== undefined && { q: options['--search'] }),
  })
  const pipelines = await service.call<PipelineItem[]>('GET', `/api/pipelines?${query}`)
  if (output.json) output.data(pipelines)
  else if (pipelines.length === 0) output.note('There are no pipelines to show.')
  else
    output.table(
      [
        { title: 'NAME' },
        { title: 'LAST RUN', whole: true },
        { title: 'AT', whole: true, extra: true },
        { title: 'SCHEDULE', extra: true },
        { title: 'FROM' },
        { title: 'TO' },
        { title: 'DOMAIN', extra: true },
        { title: 'ID', whole: true, extra: true },
      ],
      pipelines.map((each) => [
        { style: 'bold', text: each.name },
        showStatus(each.last_run_status),
        formatTime(each.last_run_at),
        each.enabled ? (each.schedule ?? '–') : 'disabled',
        `${each.source_name ?? '?'}.${each.stream}`,
        each.destination_name ?? '?',
        each.domain_name ?? '–',
        each.id,
      ]),
    )
  return 0
}
