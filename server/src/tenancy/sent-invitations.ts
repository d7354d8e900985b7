import { type Queryable, sql } from '../database/database.ts'
import { type AuditActor, audit } from './audit.ts'

/** Cancels the open invitations of somebody who may no longer invite, because they could use one to come back. */
export async function cancelSentInvitations(
  tx: Queryable,
  actor: AuditActor,
  inviterId: string,
  reason: string,
): Promise<void> {
  const cancelled = await tx.query<{ id: string; email: string }>(sql`
    UPDATE invitations SET status = 'cancelled', ended_at = now()
     WHERE organization_id = ${actor.organization_id} AND invited_by = ${inviterId} AND status = 'pending' RETURNING id, email`)
  for (const { id, email } of cancelled)
    await audit(tx, actor, 'invitation.cancelled', { type: 'invitation', id, details: { email, reason } })
}
