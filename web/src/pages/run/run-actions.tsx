import { useMutation, useQueryClient } from '@tanstack/react-query'
import { answer, api, type Schemas } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { isOver } from '../../api/run-events.ts'
import { Button } from '../../components/button.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import { Size } from '../../components/quantities.tsx'
import { Replay } from './replay.tsx'
import { RunAgain } from './run-again.tsx'

export function RunActions({ run, domainId }: { run: Schemas['Run']; domainId: string | null }) {
  const may = useMay('pipelines:run', domainId)
  const queries = useQueryClient()
  const params = { path: { run_id: run.id } }
  const cancel = useMutation({
    mutationFn: () => answer(api.POST('/api/pipelines/runs/{run_id}/cancel', { params })),
    onSettled: () => queries.invalidateQueries({ queryKey: ['run', run.id] }),
  })
  const download = useMutation({
    mutationFn: () => answer(api.POST('/api/pipelines/runs/{run_id}/output/ticket', { params })),
    onSuccess: ({ url }) => location.assign(url),
  })
  return (
    <>
      {run.output_file && (
        <Button busy={download.isPending} onClick={() => download.mutate()}>
          Download output {run.output_file_size !== null && <Size bytes={run.output_file_size} />}
        </Button>
      )}
      {run.output_file && may && <Replay run={run} />}
      {!isOver(run) && may && (
        <Button look="danger" busy={cancel.isPending} onClick={() => cancel.mutate()}>
          Cancel run
        </Button>
      )}
      {isOver(run) && (
        <RunAgain
          pipelineId={run.pipeline_id}
          domainId={domainId}
          look={run.status === 'failed' ? 'primary' : 'plain'}
        />
      )}
      <ErrorNotice error={cancel.error ?? download.error} />
    </>
  )
}
