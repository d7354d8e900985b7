import { Type } from '../../schema.ts'
import { Uuid } from './common.ts'

export const GrantDomainRole = Type.Object({ domain_id: Uuid, role: Type.Enum(['admin', 'member']) })
export const DomainRoleParams = Type.Object({ user_id: Uuid, domain_id: Uuid })
