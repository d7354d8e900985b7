/** Alerts in a chat, by an incoming webhook as Slack defines it; Mattermost, Rocket.Chat and others accept the same. */
import type { Egress } from '../egress/policy.ts'
import { type Answer, postNotice } from '../egress/post-notice.ts'
import type { Message } from './message.ts'

/** The form that Slack escapes text to; and no name after an @ calls a whole channel, in chats that read it there. */
const escapeText = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('@', '@\u200b')

/** Of a section. */
const LONGEST_TEXT = 2900
const SHORTEST_TOKEN = 12

export function slackBody({ title, lines, link, footer }: Message, consoleUrl: string): string {
  const text = [`*${escapeText(title)}*`, ...lines.map(escapeText)].join('\n').slice(0, LONGEST_TEXT).toWellFormed()
  const more = link ? `<${consoleUrl}${link.path}|${link.label}> · ` : ''
  return JSON.stringify({
    text: escapeText(title),
    blocks: [
      // Verbatim: an address in an error is no link, and a name is not looked up.
      { type: 'section', text: { type: 'mrkdwn', text, verbatim: true } },
      { type: 'context', elements: [{ type: 'mrkdwn', text: `${more}${escapeText(footer)}`, verbatim: true }] },
    ],
  })
}

export const sendToSlack = (
  egress: Pick<Egress, 'stream'>,
  { url, body, id }: { url: string; body: string; id: string },
  signal: AbortSignal,
): Promise<Answer> =>
  postNotice(egress, { url, body, headers: { 'x-sluice-delivery': id }, secrets: secretsOf(new URL(url)) }, signal)

/** A path of one letter is no secret, and would be masked everywhere; so would its short and common parts. */
const secretsOf = ({ pathname, searchParams }: URL): string[] => [
  ...[pathname, ...searchParams.values()].filter((part) => part.length > 3),
  ...pathname.split('/').filter((part) => part.length >= SHORTEST_TOKEN),
]
