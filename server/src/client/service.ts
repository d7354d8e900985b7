/**
 * Calls a running service with an API key. A failure is one sentence with the request id and what to do. The key is sent
 * to the address that it was saved for and nowhere else: redirects are refused.
 */
import type { IncomingMessage } from 'node:http'
import { clientSettings, readClientConfig } from '../config/client-config.ts'
import { OperatorError, UsageError } from '../errors.ts'
import type { Options } from './options.ts'
import { listProfiles, readProfiles } from './profiles.ts'
import { send } from './send.ts'
import { refuse } from './service-errors.ts'

export interface Service {
  url: string
  /** The saved profile; null if the environment names the service. */
  profile: string | null
  /** The body of the answer, which is JSON; throws a ServiceError unless the status is a success. */
  call<Body>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Body>
  /** The same before it is parsed, which would cost numbers their digits. */
  text(method: string, path: string, body?: unknown): Promise<string>
  /** The answer as it arrives, for what is large or has no end. Its reader must read it or destroy it. */
  open(method: string, path: string, options?: OpenOptions): Promise<IncomingMessage>
}

interface OpenOptions {
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal
  /** The longest silence; a preview may take 30 s and wait for its turn before that. */
  idleMs?: number
}

const TIMEOUT_MS = 120_000
/** An answer of JSON is held in memory. The largest of the service is 16 MB. */
const MOST_JSON_BYTES = 64 * 1024 * 1024

export async function connectService(options: Options): Promise<Service> {
  const { url, key, profile } = await findAddress(options)
  return createService(url, key, profile)
}

export function createService(url: string, key: string, profile: string | null): Service {
  if (!/^[\x21-\x7e]{1,512}$/.test(key))
    throw new UsageError(
      profile === null
        ? 'SLUICE_API_KEY has characters that no key has; set it to the key alone.'
        : `The API key of the profile ${profile} has characters that no key has; sign in again with sluice login.`,
    )
  const open: Service['open'] = async (method, path, { body, headers, signal, idleMs = TIMEOUT_MS } = {}) => {
    const response = await send(`${url}${path}`, {
      method,
      headers: {
        'x-api-key': key,
        accept: 'application/json',
        'user-agent': 'sluice-cli',
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
      idleMs,
    })
    const status = response.statusCode ?? 0
    if (status >= 200 && status < 300) return response
    throw refuse(url, profile, response, await readBody(response).catch(() => ''))
  }
  return {
    url,
    profile,
    open,
    text: async (method, path, body) => readBody(await open(method, path, { body })),
    async call<Body>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Body> {
      const response = await open(method, path, { body, ...(signal && { signal }) })
      const text = await readBody(response)
      if (response.statusCode === 204) return undefined as Body
      try {
        return JSON.parse(text) as Body
      } catch {
        throw refuse(url, profile, response, text)
      }
    },
  }
}

/** The environment wins. A key is only ever combined with the address that it belongs to. */
async function findAddress(options: Options): Promise<{ url: string; key: string; profile: string | null }> {
  const config = readClientConfig()
  const { '--profile': asked } = options
  if (config.key !== undefined) {
    if (asked !== undefined)
      throw new UsageError('SLUICE_API_KEY is set and wins over profiles; unset it to use --profile.')
    return { url: config.url ?? clientSettings.SLUICE_URL.default, key: config.key, profile: null }
  }
  const { current, profiles } = await readProfiles()
  const name =
    asked ??
    config.profile ??
    (config.url === undefined ? current : Object.keys(profiles).find((each) => profiles[each]!.url === config.url))
  if (name == null)
    throw new UsageError(
      config.url === undefined
        ? 'You are not signed in; run sluice login URL, or set SLUICE_URL and SLUICE_API_KEY.'
        : `SLUICE_API_KEY is not set, and no profile is for ${config.url}; set it, or run sluice login ${config.url}.`,
    )
  const found = Object.hasOwn(profiles, name) ? profiles[name] : undefined
  if (found === undefined)
    throw new UsageError(
      `There is no profile '${name}'; ${listProfiles(profiles)}. Run sluice login URL --profile ${name}.`,
    )
  if (config.url !== undefined && config.url !== found.url)
    throw new UsageError(
      `SLUICE_URL is ${config.url}, but the profile '${name}' is for ${found.url}; unset SLUICE_URL or choose another profile.`,
    )
  return { url: found.url, key: found.api_key, profile: name }
}

async function readBody(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MOST_JSON_BYTES)
      throw new OperatorError('The answer is larger than 64 MB, so it was not read; ask for less.')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
