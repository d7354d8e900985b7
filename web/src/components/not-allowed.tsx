import { useSuspenseQuery } from '@tanstack/react-query'
import { permissions } from '../../../server/src/tenancy/permissions.ts'
import { meQuery } from '../api/queries.ts'
import { Empty } from './notice.tsx'

/** In the place of a page that is not for this person: who it is for, and whom to ask. */
export function NotAllowed({ permission, what }: { permission: keyof typeof permissions; what: string }) {
  const { role, organization } = useSuspenseQuery(meQuery).data
  const needed = permissions[permission]
  return (
    <Empty title={`${what} is for ${needed === 'owner' ? 'the owner' : `${needed}s`}`}>
      Your role in {organization.name} is {role}. It takes the role {needed}
      {needed === 'owner' ? '' : ' or a higher one'}; an admin or the owner can change yours.
    </Empty>
  )
}
