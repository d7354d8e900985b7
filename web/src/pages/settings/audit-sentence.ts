/**
 * A line of the audit log as a sentence, without its subject: "invited new@example.com as member". What an action does not
 * name itself (a person, a domain) is looked up in `names`; an id that is not known there any more stays an id.
 */
import type { Schemas } from '../../api/client.ts'

export type AuditLine = Schemas['AuditLine']

export type Names = (id: string) => string | undefined

type Say = (details: Details, line: AuditLine) => string

/** The details of a line, which are JSON of any form. */
class Details {
  readonly values: Record<string, unknown>
  readonly names: Names
  constructor(values: Record<string, unknown>, names: Names) {
    this.values = values
    this.names = names
  }
  text(name: string): string {
    const value = this.values[name]
    return typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value)
  }
  /** In quotation marks, or "one" if it is not told. */
  quoted(name = 'name'): string {
    return this.text(name) === '' ? 'one without a name' : `“${this.text(name)}”`
  }
  named(name: string): string {
    return this.names(this.text(name)) ?? this.text(name)
  }
  /** Lines of earlier releases have only the id of the pipeline. */
  pipeline(): string {
    return this.text('pipeline') === '' ? 'a pipeline' : this.quoted('pipeline')
  }
  list(name: string): string {
    const value = this.values[name]
    return Array.isArray(value) ? value.join(', ') : ''
  }
}

const changed =
  (thing: string): Say =>
  (d) =>
    `changed the ${thing} ${d.quoted()}${d.list('fields') === '' ? '' : ` (${d.list('fields')})`}`
const created =
  (thing: string): Say =>
  (d) =>
    `created the ${thing} ${d.quoted()}`
const deleted =
  (thing: string): Say =>
  (d) =>
    `deleted the ${thing} ${d.quoted()}`

const SENTENCES: Record<string, Say> = {
  'session.opened': (d) => (d.values.switched === true ? 'opened this organization' : 'signed in'),
  'session.closed': () => 'signed out, or ended a session',
  'session.replayed': () => 'used an old refresh token, so the session was ended',
  'user.registered': () => 'created an account',
  'user.renamed': (d) => `changed their name from “${d.text('from')}” to “${d.text('to')}”`,
  'user.password_changed': () => 'changed their password',
  'user.password_removed': () => 'lost a password, because the identity provider has proven the address',
  'user.password_reset': () => 'reset a password on the command line',
  'identity.linked': () => 'linked an account of the identity provider',
  'identity.unlinked': () => 'unlinked the account of the identity provider',
  'organization.created': (d) => `created the organization ${d.quoted()}`,
  'organization.renamed': (d) => `renamed the organization from “${d.text('from')}” to “${d.text('to')}”`,
  'organization.transferred': (d) => `transferred the ownership to ${d.text('to')}`,
  'member.role_changed': (d) => `changed the role of ${d.text('email')} from ${d.text('from')} to ${d.text('to')}`,
  'member.removed': (d) => `removed ${d.text('email')} (${d.text('role')})`,
  'invitation.created': (d) => `invited ${d.text('email')} as ${d.text('role')}`,
  'invitation.accepted': (d) =>
    `accepted the invitation${d.text('email') === '' ? '' : ` of ${d.text('email')}`}${d.text('role') === '' ? '' : ` as ${d.text('role')}`}`,
  'invitation.cancelled': (d) =>
    `cancelled the invitation of ${d.text('email')}${d.text('reason') === '' ? '' : ` (${d.text('reason')})`}`,
  'domain.created': created('domain'),
  'domain.updated': changed('domain'),
  'domain.deleted': deleted('domain'),
  'domain_role.granted': (d) => `gave ${d.named('user_id')} the role ${d.text('role')} in ${d.quoted('domain')}`,
  'domain_role.revoked': (d) =>
    `revoked the role ${d.text('role')} of ${d.named('user_id')} in ${d.named('domain_id')}`,
  'api_key.created': (d) => `created the API key ${d.quoted()}`,
  'api_key.revoked': (d) => `revoked the API key ${d.quoted()}`,
  'pipeline.created': created('pipeline'),
  'pipeline.copied': (d) => `copied a pipeline to ${d.quoted()}`,
  'pipeline.updated': changed('pipeline'),
  'pipeline.deleted': deleted('pipeline'),
  'pipeline_state.written': () => 'set the state of a pipeline',
  'pipeline_state.removed': () => 'reset the state of a pipeline',
  'run.triggered': (d) => `started a run of ${d.pipeline()}`,
  'run.cancelled': (d) => `cancelled a run of ${d.pipeline()}`,
  'run.output_ticket_issued': () => 'downloaded the output of a run',
  'saved_source.created': created('source connection'),
  'saved_source.updated': changed('source connection'),
  'saved_source.deleted': deleted('source connection'),
  'saved_destination.created': created('destination connection'),
  'saved_destination.updated': changed('destination connection'),
  'saved_destination.deleted': deleted('destination connection'),
  'custom_source.created': created('custom source'),
  'custom_source.updated': changed('custom source'),
  'custom_source.deleted': deleted('custom source'),
  'manifest.created': created('manifest'),
  'manifest.updated': changed('manifest'),
  'manifest.deleted': deleted('manifest'),
  'alert.created': created('alert'),
  'alert.updated': changed('alert'),
  'alert.deleted': deleted('alert'),
  'alert.tested': (d) => `tested the alert ${d.quoted()}`,
  'webhook.created': (d) => `created a webhook to ${d.text('host')}`,
  'webhook.updated': (d) => `changed the webhook to ${d.text('host')} (${d.list('fields')})`,
  'webhook.deleted': (d) => `deleted the webhook to ${d.text('host')}`,
  'webhook.tested': (d) => `tested the webhook to ${d.text('host')}`,
  'webhook.resent': (d) => `sent a delivery to ${d.text('host')} again`,
}

export const KNOWN_ACTIONS = Object.keys(SENTENCES)

export function sayAction(line: AuditLine, names: Names): string {
  const say = SENTENCES[line.action]
  if (say) return say(new Details(line.details, names), line)
  // An action that this version of the console does not know: at least its words.
  return line.action.replace(/[._]/g, ' ')
}
