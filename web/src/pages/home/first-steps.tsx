import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { answer, api, type Schemas } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { NewPipeline } from '../../components/editor-links.tsx'
import { Empty, ErrorNotice } from '../../components/notice.tsx'
import styles from './home-page.module.css'

/** One button makes a first pipeline and shows it running. */
export function FirstSteps() {
  const may = useMay('pipelines:write')
  const navigate = useNavigate()
  const queries = useQueryClient()
  const begin = useMutation({
    mutationFn: async () => {
      const config: Schemas['PipelineConfig'] = {
        source: { name: 'dummy', stream: 'creatures', config: { records: 1000 } },
        destination: { name: 'file' },
      }
      const { id } = await answer(api.POST('/api/pipelines', { body: { name: 'Creatures', config } }))
      return answer(api.POST('/api/pipelines/{id}/run', { params: { path: { id } } }))
    },
    onSuccess: async (run) => {
      void queries.invalidateQueries({ queryKey: ['pipelines'] })
      await navigate({ to: '/runs/$id', params: { id: run.id } })
    },
  })
  return (
    <Empty
      title="No pipelines yet"
      action={
        may && (
          <div className={styles.first}>
            <Button look="primary" busy={begin.isPending} onClick={() => begin.mutate()}>
              Create a first pipeline and run it
            </Button>
            <NewPipeline look="plain" />
          </div>
        )
      }
    >
      A pipeline moves one stream of a source to a destination, by hand or on a schedule.{' '}
      {may
        ? 'The first one reads a thousand made-up creatures into a file that you can download.'
        : 'Your role may look at pipelines but not create them; ask an admin of your organization.'}
      <ErrorNotice error={begin.error} />
    </Empty>
  )
}
