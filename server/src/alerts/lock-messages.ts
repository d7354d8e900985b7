/**
 * Who locks many deliveries of a rule takes this lock before, or locks the rule itself as its deletion does: neither waits for
 * another one with some of them in hand.
 */
import { lockForTransaction, type Queryable } from '../database/database.ts'

export const lockMessages = (tx: Queryable, alertId: string) => lockForTransaction(tx, `alert messages ${alertId}`)
