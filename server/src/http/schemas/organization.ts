import { Type } from '../../schema.ts'
import { Uuid } from './common.ts'

export const TransferOwnership = Type.Object({ user_id: Uuid })
