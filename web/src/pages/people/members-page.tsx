import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Schemas } from '../../api/client.ts'
import { usePerson } from '../../api/person.ts'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import table from '../../components/table.module.css'
import { MemberActions } from './member-actions.tsx'
import { PeopleHead } from './people-head.tsx'
import { membersQuery } from './queries.ts'
import { ROLE_WORDS } from './words.ts'

export function MembersPage() {
  const members = useQuery(membersQuery)
  return (
    <>
      <PeopleHead view="/people" />
      {members.isPending && <Skeleton rows={6} />}
      <ErrorNotice error={members.error} onRetry={members.refetch} />
      {members.data && <Members members={members.data} />}
    </>
  )
}

const RANKS = ['owner', 'admin', 'member', 'viewer']

function Members({ members }: { members: Schemas['Member'][] }) {
  const me = usePerson()
  const sorted = members.toSorted(
    (one, other) => RANKS.indexOf(one.role) - RANKS.indexOf(other.role) || one.name.localeCompare(other.name),
  )
  return (
    <table className={table.table}>
      <thead>
        <tr>
          <th>Name</th>
          <th className={table.wide}>Email</th>
          <th className={table.fit}>Role</th>
          <th className={`${table.fit} ${table.wide}`}>Joined</th>
          <th className={`${table.fit} ${table.end}`}>
            <span className="visually-hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {sorted.map((member) => (
          <tr key={member.id}>
            <td>
              <Link to="/people/$id" params={{ id: member.id }} title={member.name} className={table.name}>
                {member.name}
              </Link>
              {member.id === me.id && <span className="faint"> (you)</span>}
            </td>
            <td className={`${table.wide} soft`} title={member.email}>
              {member.email}
            </td>
            <td className={table.fit} title={ROLE_WORDS[member.role]}>
              {member.role}
            </td>
            <td className={`${table.fit} ${table.wide} soft`}>
              <Time at={member.joined_at} />
            </td>
            <td className={`${table.fit} ${table.end}`}>
              <MemberActions member={member} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
