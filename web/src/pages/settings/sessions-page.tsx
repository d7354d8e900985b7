import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api, type Schemas } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import table from '../../components/table.module.css'
import { sessionsQuery } from './queries.ts'
import { SettingsHead } from './settings-head.tsx'
import { sayClient } from './user-agent.ts'

type Session = Schemas['Session']

export function SessionsPage() {
  const sessions = useQuery(sessionsQuery)
  const queries = useQueryClient()
  const end = useMutation({
    mutationFn: (ended: Session[]) =>
      Promise.all(ended.map(({ id }) => api.DELETE('/api/auth/sessions/{id}', { params: { path: { id } } }))),
    onSettled: () => queries.invalidateQueries({ queryKey: ['sessions'] }),
  })
  const others = sessions.data?.filter(({ current }) => !current) ?? []
  return (
    <>
      <SettingsHead
        title="Sessions"
        lead="Where you are signed in, in all your organizations. End what you do not recognize."
      >
        {others.length > 0 && (
          <Button busy={end.isPending} onClick={() => end.mutate(others)}>
            End all others
          </Button>
        )}
      </SettingsHead>
      {sessions.isPending && <Skeleton rows={3} />}
      <ErrorNotice error={sessions.error ?? end.error} onRetry={sessions.refetch} />
      {sessions.data && (
        <table className={table.table}>
          <thead>
            <tr>
              <th>Client</th>
              <th className={table.wide}>Organization</th>
              <th className={table.wide}>Opened from</th>
              <th className={`${table.fit} ${table.wide}`}>Opened</th>
              <th className={table.fit}>Last used</th>
              <th className={`${table.fit} ${table.end}`}>
                <span className="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {sessions.data.map((session) => (
              <SessionRow key={session.id} session={session} busy={end.isPending} onEnd={() => end.mutate([session])} />
            ))}
          </tbody>
        </table>
      )}
    </>
  )
}

function SessionRow({ session, busy, onEnd }: { session: Session; busy: boolean; onEnd(): void }) {
  const { organization, user_agent, client_address, created_at, last_used_at, current } = session
  return (
    <tr>
      <td title={user_agent ?? undefined}>{sayClient(user_agent)}</td>
      <td className={`${table.wide} soft`} title={organization.name}>
        {organization.name}
      </td>
      <td className={`${table.wide} soft`}>{client_address}</td>
      <td className={`${table.fit} ${table.wide} soft`}>
        <Time at={created_at} />
      </td>
      <td className={`${table.fit} soft`}>
        <Time at={last_used_at} />
      </td>
      <td className={`${table.fit} ${table.end}`}>
        {current ? (
          <span className="faint">this one</span>
        ) : (
          <Button
            look="quiet"
            disabled={busy}
            aria-label={`End the session of ${sayClient(user_agent)}`}
            onClick={onEnd}
          >
            End
          </Button>
        )}
      </td>
    </tr>
  )
}
