import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Schemas } from '../../api/client.ts'
import { runConfigQuery } from './queries.ts'
import { sayTrigger } from './triggers.ts'

/** What started a run; of a replay also which run it replays, if its configuration is still kept. */
export function Trigger({ run }: { run: Pick<Schemas['Run'], 'id' | 'triggered_by'> }) {
  const isReplay = run.triggered_by === 'replay'
  const used = useQuery({ ...runConfigQuery(run.id), enabled: isReplay })
  const replayed = used.data?.config?.replays
  if (!isReplay || typeof replayed !== 'string') return <>{sayTrigger(run.triggered_by)}</>
  return (
    <>
      replays the output of{' '}
      <Link to="/runs/$id" params={{ id: replayed }}>
        run {replayed.slice(0, 8)}
      </Link>
      {used.data?.config?.other_destination === true && ' into another destination'}
    </>
  )
}
