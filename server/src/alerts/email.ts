/**
 * Alerts by e-mail, through the operator's server. That server is trusted, so it is dialled directly; what it says about its
 * own failures goes to the log, and tenants only read what it answers about their message.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Logger } from 'pino'
import { createRedact, type Redact } from '../connectors/settings/redact.ts'
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
    const failure = error as MailFailure
    const redact = createRedact(server.auth ? [server.auth.pass] : [])
    log.warn(
      { delivery_id: mail.id, code: failure.code, reason: redact(failure.message) },
      'the mail server did not take an alert',
    )
    return describeFailure(failure, redact)
  } finally {
    socket?.destroy()
  }
}

interface MailFailure extends Error {
  code?: string
  /** Of the server, if it answered. */
  response?: string
  responseCode?: number
}

/** The server's answer is about the message, not about who sends it. */
const ABOUT_THE_MESSAGE = ['EENVELOPE', 'EMESSAGE']

function describeFailure(failure: MailFailure, redact: Redact): Answer {
  const { code = '', response = '', responseCode } = failure
  if (responseCode === undefined || !ABOUT_THE_MESSAGE.includes(code))
    return unanswered(describeOwnFailure(failure), true)
  return {
    ...unanswered(`The mail server answered ${excerptOf(redact(response))}`, responseCode < 500),
    response_status: responseCode,
  }
}

/** The server, its name and the credentials are the operator's, and so is what it says about them. */
function describeOwnFailure({ code, responseCode, message }: MailFailure): string {
  if (code === 'EAUTH')
    return 'The mail server refused the user or the password of this service; its operator has to check SMTP_URL'
  if (code === 'ETLS' && responseCode !== undefined)
    return 'The mail server offers no TLS, and a password is never sent without it; the operator of this service has to change SMTP_URL'
  if (responseCode === undefined && /certificate/i.test(message))
    return 'The certificate of the mail server is not trusted; the operator of this service finds the cause in the log'
  return 'The mail server of this service did not take the message; its operator finds the cause in the log'
}

/** A password is never sent without TLS, and certificates are verified. */
function readServer(text: string) {
  const url = new URL(text)
  const secure = url.protocol === 'smtps:'
  const auth = url.username !== '' && { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) }
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port) || (secure ? 465 : 587),
    secure,
    ...(auth ? { auth, requireTLS: !secure, forceAuth: true } : { auth: undefined }),
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
