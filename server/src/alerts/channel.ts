/**
 * Where an alert is sent. All of it is encrypted in the row of the rule: the address of a chat lets whoever has it write
 * there, so it is shown as its origin and a mask, and the mask may be sent back.
 */
import type { Config } from '../config/config.ts'
import { MASK } from '../connectors/settings/secrets.ts'
import { type Queryable, sql } from '../database/database.ts'
import { type SecretBox, SecretLost } from '../database/secret-box.ts'
import { checkReceiver } from '../egress/check-receiver.ts'
import type { Egress } from '../egress/policy.ts'
import { AppError } from '../errors.ts'
import { normalizeEmail } from '../tenancy/email.ts'

export const MAX_RECIPIENTS = 20
export const CHANNEL_TYPES = ['slack', 'email'] as const

export type Channel = { type: 'slack'; url: string } | { type: 'email'; to: string[] }
export interface ChannelInput {
  type: (typeof CHANNEL_TYPES)[number]
  url?: string
  to?: string[]
}

/** What the operator has decided about e-mail. */
export type MailSettings = Pick<Config, 'SMTP_URL' | 'SMTP_FROM' | 'ALERT_EMAIL_DOMAINS' | 'SIGNUP'>

interface ChannelTools {
  tx: Queryable
  egress: Pick<Egress, 'checkUrl'>
  config: MailSettings
}

export const channelPlace = (organizationId: string, alertId: string) => ({
  organization_id: organizationId,
  column: 'alerts.channel_box',
  row_id: alertId,
})

const refuse = (field: string, fault: string) => new AppError('invalid_input', `channel.${field}: ${fault}`)

/** `stored` is the one that a mask stands for. */
export async function checkChannel(
  { tx, egress, config }: ChannelTools,
  organizationId: string,
  { type, url, to }: ChannelInput,
  stored: Channel | null,
): Promise<Channel> {
  if (type === 'slack') {
    if (to !== undefined) throw refuse('to', 'is only for e-mail; a chat has a url')
    if (url === undefined) throw refuse('url', 'is required; give the address of an incoming webhook')
    if (stored?.type === 'slack' && url === showUrl(stored.url)) return stored
    const address = checkReceiver(egress, url, 'channel.url', 'the address of an incoming webhook is enough')
    if (address.pathname.endsWith(`/${MASK}`)) throw refuse('url', 'is a mask; give the whole address')
    return { type, url: address.href }
  }
  if (url !== undefined) throw refuse('url', 'is only for a chat; e-mail has a list `to`')
  if (to === undefined || to.length === 0) throw refuse('to', 'is required; give the addresses that are told')
  if (config.SMTP_URL === undefined)
    throw refuse('type', 'this service sends no e-mail; its operator has to set SMTP_URL, or use slack')
  const addresses = [...new Set(to.map(normalizeEmail))]
  const allowed = await allowedRecipients(tx, config, organizationId, addresses)
  const strangers = addresses.filter((address) => !allowed.includes(address))
  if (strangers.length > 0)
    throw refuse(
      'to',
      `${strangers.slice(0, 3).join(', ')}${strangers.length > 3 ? ' and others are' : ' is'} not allowed; give ${describeAllowed(config)}`,
    )
  return { type, to: addresses }
}

const describeAllowed = ({ SIGNUP, ALERT_EMAIL_DOMAINS }: MailSettings): string =>
  [
    'addresses of members of the organization',
    ...(SIGNUP === 'open' ? [' that an identity provider has proven'] : []),
    ALERT_EMAIL_DOMAINS.length > 0
      ? `, or of ${ALERT_EMAIL_DOMAINS.join(', ')}`
      : '; the operator can allow others with ALERT_EMAIL_DOMAINS',
  ].join('')

/**
 * Members of the organization, and addresses of the operator's domains: nobody else can be made to receive mail. Where anybody
 * can register with any address, being a member proves nothing, so the address has to be proven.
 */
export async function allowedRecipients(
  db: Queryable,
  { SIGNUP, ALERT_EMAIL_DOMAINS }: MailSettings,
  organizationId: string,
  addresses: string[],
): Promise<string[]> {
  const members = await db.query<{ email: string }>(sql`
    SELECT u.email FROM users u JOIN memberships m ON m.user_id = u.id AND m.organization_id = ${organizationId} WHERE u.email = ANY (${addresses}::text[])
       AND (${SIGNUP === 'invited'} OR u.email_verified_at IS NOT NULL)`)
  const known = new Set(members.map(({ email }) => email))
  return addresses.filter(
    (address) => known.has(address) || ALERT_EMAIL_DOMAINS.includes(address.slice(address.lastIndexOf('@') + 1)),
  )
}

const showUrl = (url: string): string => `${new URL(url).origin}/${MASK}`

/** Null if the key is lost that encrypted it. */
export function openChannel(
  box: SecretBox,
  row: { id: string; organization_id: string; channel_box: Buffer },
): Channel | null {
  try {
    return box.open<Channel>(channelPlace(row.organization_id, row.id), row.channel_box)
  } catch (error) {
    if (error instanceof SecretLost) return null
    throw error
  }
}

export const showChannel = (channel: Channel | null): Channel | null =>
  channel?.type === 'slack' ? { type: 'slack', url: showUrl(channel.url) } : channel

/** For the audit log: never the address of a chat. */
export const describeChannel = (channel: Channel): { type: string; host?: string; recipients?: number } =>
  channel.type === 'slack'
    ? { type: 'slack', host: new URL(channel.url).host }
    : { type: 'email', recipients: channel.to.length }
