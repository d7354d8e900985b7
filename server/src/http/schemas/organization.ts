import { Type } from 'typebox'
import { Uuid } from './common.ts'

export const TransferOwnership = Type.Object({ user_id: Uuid })
