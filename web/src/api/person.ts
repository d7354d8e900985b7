/** Who is looking, and what they may do. */
import { useSuspenseQuery } from '@tanstack/react-query'
import { domainPermissions, type Permission, permissions, rank } from '../../../server/src/tenancy/permissions.ts'
import type { Schemas } from './client.ts'
import { meQuery } from './queries.ts'

type Person = Schemas['Me']

/** Only inside the frame, which loads it before any page. */
export function usePerson(): Person {
  return useSuspenseQuery(meQuery).data
}

/** In the organization, or in the given domain, where a domain role may allow more. The server decides in the end. */
export function useMay(permission: Permission, domainId?: string | null): boolean {
  const { permissions: held, domain_roles } = usePerson()
  if (held.includes(permission)) return true
  if (!domainPermissions.includes(permission)) return false
  return domain_roles.some(
    (raised) =>
      (domainId === undefined || raised.domain_id === domainId) && rank(raised.role) >= rank(permissions[permission]),
  )
}
