import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { answer, api } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'

interface Props {
  pipelineId: string
  domainId: string | null
  look?: 'primary' | 'plain'
  /** Do not go to the new run. */
  stay?: boolean
}

/** Runs a pipeline once more and goes to that run. */
export function RunAgain({ pipelineId, domainId, look = 'plain', stay = false }: Props) {
  const may = useMay('pipelines:run', domainId)
  const navigate = useNavigate()
  const queries = useQueryClient()
  const run = useMutation({
    mutationFn: () => answer(api.POST('/api/pipelines/{id}/run', { params: { path: { id: pipelineId } } })),
    onSuccess: ({ id }) => {
      void queries.invalidateQueries({ queryKey: ['runs'] })
      return stay ? undefined : navigate({ to: '/runs/$id', params: { id } })
    },
  })
  if (!may) return null
  return (
    <Button
      look={look}
      busy={run.isPending}
      disabled={stay && run.isSuccess}
      onClick={() => run.mutate()}
      title={run.error ? run.error.message : undefined}
    >
      {run.error ? 'It could not be started. Try again' : stay && run.isSuccess ? 'Started' : 'Run again'}
    </Button>
  )
}
