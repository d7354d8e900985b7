/** What the server allows to do with a member, as the reasons why something is not offered. */
import type { Schemas } from '../../api/client.ts'

type Person = Schemas['Me']
type Member = Schemas['Member']

/** Why the role of a member cannot be changed, or why they cannot be removed; null if they can. */
export function whyNotChange(me: Person, member: Member): string | null {
  if (!me.permissions.includes('users:manage_roles')) return 'Only admins and the owner change roles and remove people'
  if (member.role === 'owner') return 'The owner stays until the ownership is transferred'
  if (member.role === 'admin' && me.role === 'admin' && member.id !== me.id) return 'Only the owner changes an admin'
  return null
}
