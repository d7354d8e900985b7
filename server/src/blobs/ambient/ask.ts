/** Requests to the services that hand out credentials. They are the operator's own, so they do not go through egress. */
import type { Agent } from 'undici'
import { OperatorError } from '../../errors.ts'
import { readText } from '../../s3/xml.ts'
import { loadUndici } from '../../undici.ts'

export interface TemporaryCredentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken: string
  /** When they expire, in milliseconds since 1970. */
  expires: number
}

interface Question {
  /** Who is asked, for messages. */
  service: string
  method?: 'GET' | 'PUT' | 'POST'
  headers?: Record<string, string>
  body?: string
  timeoutMs?: number
}

const ANSWER_BYTES = 64 * 1024
const TIMEOUT_MS = 5000
const TRIES = 3
let agent: Agent | undefined

/** The text of a successful answer. Never follows a redirect; never repeats what was sent or answered. */
export async function ask(url: string, question: Question): Promise<string> {
  const undici = loadUndici()
  // Asked once an hour: a kept connection would only be found dead.
  agent ??= new undici.Agent({ pipelining: 0, allowH2: false })
  const { service, method = 'GET', headers = {}, body, timeoutMs = TIMEOUT_MS } = question
  for (let tries = 1; ; tries++) {
    try {
      const answer = await undici.request(url, {
        method,
        headers,
        dispatcher: agent,
        signal: AbortSignal.timeout(timeoutMs),
        ...(body === undefined ? {} : { body }),
      })
      const text = await readText(answer.body, ANSWER_BYTES)
      if (answer.statusCode >= 200 && answer.statusCode < 300) return text
      if (answer.statusCode < 500 || tries === TRIES)
        throw refused(service, `it answered with status ${answer.statusCode}${codeIn(text)}`)
    } catch (error) {
      if (error instanceof OperatorError) throw error
      if (tries === TRIES) throw refused(service, `it cannot be reached (${(error as Error).message})`, error)
    }
  }
}

/** The reason that AWS gives has a short code; its text may quote what was sent. */
function codeIn(text: string): string {
  const code = /<Code>([A-Za-z.]{1,60})<\/Code>|"[Cc]ode"\s*:\s*"([A-Za-z.]{1,60})"/.exec(text)
  return code ? `, ${code[1] ?? code[2]}` : ''
}

export function refused(service: string, why: string, cause?: unknown): OperatorError {
  return new OperatorError(
    `S3_CREDENTIALS is ambient, but ${service} gives no credentials for BLOB_URL: ${why}.`,
    cause === undefined ? {} : { cause },
  )
}

/** The JSON that containers and instances are given. */
export function readCredentials(service: string, text: string): TemporaryCredentials {
  let answer: Record<string, unknown>
  try {
    answer = JSON.parse(text) as Record<string, unknown>
  } catch {
    throw refused(service, 'its answer is not JSON')
  }
  return checkCredentials(service, {
    accessKeyId: answer?.AccessKeyId,
    secretAccessKey: answer?.SecretAccessKey,
    sessionToken: answer?.Token,
    expires: answer?.Expiration,
  })
}

export function checkCredentials(
  service: string,
  { accessKeyId, secretAccessKey, sessionToken, expires: until }: Record<keyof TemporaryCredentials, unknown>,
): TemporaryCredentials {
  const expires = Date.parse(String(until))
  const isHeader = (value: unknown): value is string => typeof value === 'string' && /^[\x21-\x7e]{1,8192}$/.test(value)
  if (!isHeader(accessKeyId) || !isHeader(secretAccessKey) || !isHeader(sessionToken) || !Number.isFinite(expires))
    throw refused(service, 'its answer has no AccessKeyId, SecretAccessKey, Token and Expiration')
  if (expires <= Date.now()) throw refused(service, 'what it answers has expired; compare the clocks')
  return { accessKeyId, secretAccessKey, sessionToken, expires }
}
