import { queryOptions } from '@tanstack/react-query'
import { answer, api } from '../../api/client.ts'

export const membersQuery = queryOptions({
  queryKey: ['members'],
  queryFn: () => answer(api.GET('/api/users')),
})

export function memberQuery(user_id: string) {
  return queryOptions({
    queryKey: ['members', user_id],
    queryFn: () => answer(api.GET('/api/users/{user_id}', { params: { path: { user_id } } })),
  })
}

export const invitationsQuery = queryOptions({
  queryKey: ['invitations'],
  queryFn: () => answer(api.GET('/api/users/invitations')),
})

export function domainRolesQuery(user_id: string) {
  return queryOptions({
    queryKey: ['members', user_id, 'domain-roles'],
    queryFn: () => answer(api.GET('/api/users/{user_id}/domain-roles', { params: { path: { user_id } } })),
  })
}
