/**
 * The audit log. Every change writes one line in its own transaction, so there is never one without the other. Details
 * contain names and ids, never a secret or a configuration.
 */

import { type Queryable, type Statement, sql } from '../database/database.ts'
import type { Json } from '../json/json.ts'
import type { RequestOrigin } from './actor.ts'

export interface AuditActor extends RequestOrigin {
  user_id: string | null
  email: string | null
  organization_id: string | null
  api_key_id: string | null
}

export interface AuditedObject {
  type:
    | 'user'
    | 'organization'
    | 'session'
    | 'membership'
    | 'invitation'
    | 'domain'
    | 'domain_role'
    | 'api_key'
    | 'pipeline'
    | 'run'
    | 'saved_connector'
    | 'custom_source'
    | 'webhook'
    | 'alert'
    | 'pipeline_state'
  id: string | null
  details?: Record<string, Json>
}

export const audit = (tx: Queryable, actor: AuditActor, action: string, object: AuditedObject): Promise<number> =>
  tx.execute(auditStatement(actor, action, object))

export const auditStatement = (
  actor: AuditActor,
  action: string,
  { type, id, details = {} }: AuditedObject,
): Statement => sql`
  INSERT INTO audit_log (organization_id, actor_id, actor_email, api_key_id, action, object_type, object_id, details, request_id, client_address)
  VALUES (${actor.organization_id}, ${actor.user_id}, ${actor.email}, ${actor.api_key_id}, ${action}, ${type}, ${id},
          ${JSON.stringify(details)}, ${actor.request_id}, ${actor.client_address})`

/** Which of the known fields a change contains. A body may contain others, of any name and length. */
export const fieldsOf = (input: object, known: readonly string[]): string[] =>
  known.filter((name) => Object.hasOwn(input, name)).sort()
