/**
 * Alerts by e-mail, through the operator's server. That server is trusted, so it is dialled directly; what it says about its
 * own failures goes to the log, and tenants only read what it answers about their message.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Logger } from 'pino'
import { type Answer, excerptOf, unanswered } from '../egress/post-notice.ts'
import type { MailSettings } from './channel.ts'
import type { Message } from './message.ts'

const CONNECT_MS = 10_000
const ANSWER_MS = 15_000
/** All of it; shorter than the lease of a delivery. */
const SEND_MS = 40_000

export interface Mail {
  /** The same at every attempt, so that a mailbox can recognise a repetition. */
  id: string
  /** Mails of one incident form a thread. */
  incident_id: string | null
  to: string[]
  message: Message
}

interface MailTools {
  config: MailSettings & { FRONTEND_URL: string }
  log: Logger
}

/** Throws if the signal was aborted. */
export async function sendMail({ config, log }: MailTools, mail: Mail, signal: AbortSignal): Promise<Answer> {
  if (config.SMTP_URL === undefined || config.SMTP_FROM === undefined)
    return unanswered('This service sends no e-mail any more; its operator has to set SMTP_URL', true)
  const server = readServer(config.SMTP_URL)
  const ends = AbortSignal.any([signal, AbortSignal.timeout(SEND_MS)])
  let socket: Socket | undefined
  try {
    const { createTransport } = await import('nodemailer')
    socket = connect({ host: server.host, port: server.port, signal: ends })
    await once(socket, 'connect', { signal: AbortSignal.any([ends, AbortSignal.timeout(CONNECT_MS)]) })
    const transport = createTransport({
      ...server,
      connection: socket,
      greetingTimeout: CONNECT_MS,
      socketTimeout: ANSWER_MS,
      disableFileAccess: true,
      disableUrlAccess: true,
    })
    await transport.sendMail(composeMail(mail, config.SMTP_FROM, config.FRONTEND_URL))
    return { arrived: true, response_status: null }
  } catch (error) {
    signal.throwIfAborted()
    const { responseCode, response = '', code } = error as { responseCode?: number; response?: string; code?: string }
    log.warn({ err: error, delivery_id: mail.id }, 'the mail server did not take an alert')
    // The credentials are the operator's, and so is what the server says about them.
    if (responseCode === undefined || code === 'EAUTH')
      return unanswered(
        'The mail server of this service did not take the message; its operator finds the cause in the log',
        true,
      )
    return {
      ...unanswered(`The mail server answered ${excerptOf(response)}`, responseCode < 500),
      response_status: responseCode,
    }
  } finally {
    socket?.destroy()
  }
}

/** A password is never sent without TLS, and certificates are verified. */
function readServer(text: string) {
  const url = new URL(text)
  const secure = url.protocol === 'smtps:'
  const auth = url.username && { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) }
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port) || (secure ? 465 : 587),
    secure,
    ...(auth && { auth, requireTLS: !secure, forceAuth: true }),
  }
}

function composeMail({ id, incident_id, to, message }: Mail, from: string, consoleUrl: string) {
  const { title, lines, link, footer } = message
  const sender = readSender(from)
  const host = sender.address.slice(sender.address.lastIndexOf('@') + 1)
  const url = link && `${consoleUrl}${link.path}`
  return {
    from: sender,
    to: to.map((address) => ({ name: '', address })),
    envelope: { from: sender.address, to },
    messageId: `<${id}@${host}>`,
    ...(incident_id && { references: `<${incident_id}@${host}>` }),
    headers: { 'Auto-Submitted': 'auto-generated', 'X-Sluice-Delivery': id },
    subject: title,
    text: [title, '', ...lines, '', ...(link ? [`${link.label}: ${url}`, ''] : []), footer, ''].join('\n'),
    html: [
      `<p><strong>${escapeHtml(title)}</strong></p>`,
      ...lines.map((line) => `<p>${escapeHtml(line)}</p>`),
      ...(link ? [`<p><a href="${escapeHtml(url!)}">${link.label}</a></p>`] : []),
      `<p><small>${escapeHtml(footer)}</small></p>`,
    ].join('\n'),
  }
}

/** `Sluice <alerts@example.com>` or the address alone; the setting was checked at start. */
function readSender(text: string): { name: string; address: string } {
  const [, name = '', address = text] = /^(.*)<([^<>]+)>$/.exec(text) ?? []
  return { name: name.trim(), address: address.trim() }
}

const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
