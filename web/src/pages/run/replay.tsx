import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { answer, api, type Schemas } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'

/** Loads the output into the destination again. A whole database is not the records of one run. */
export function Replay({ run }: { run: Schemas['Run'] }) {
  const [asking, setAsking] = useState(false)
  const navigate = useNavigate()
  const replay = useMutation({
    mutationFn: () => answer(api.POST('/api/pipelines/runs/{run_id}/replay', { params: { path: { run_id: run.id } } })),
    onSuccess: ({ id }) => navigate({ to: '/runs/$id', params: { id } }),
  })
  if (/\.(duckdb|sqlite)$/.test(run.output_file ?? '')) return null
  return (
    <>
      <Button onClick={() => setAsking(true)}>Load again</Button>
      {asking && (
        <Confirm
          title="Load this output again"
          action="Load again"
          busy={replay.isPending}
          error={replay.error}
          onConfirm={() => replay.mutate()}
          onClose={() => setAsking(false)}
        >
          <p>
            A new run loads these records into the destination that the pipeline has now, without asking the source.
            They replace a table, are merged by the primary key, or are appended once more, as the pipeline writes.
          </p>
        </Confirm>
      )}
    </>
  )
}
