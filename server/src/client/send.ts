/**
 * One HTTP request. Node's own client and not fetch: fetch takes longer to load than most commands take, and follows
 * redirects unless told otherwise.
 */
import type { IncomingMessage, RequestOptions } from 'node:http'
import { Unreachable } from './service-errors.ts'

interface Request {
  method: string
  headers: Record<string, string>
  body?: string
  signal?: AbortSignal
  /** The longest silence, before and within the answer. */
  idleMs: number
}

/**
 * TLS is loaded only where it is used. Not imported: an import reads all exports of a module, and one of Node's HTTP is
 * WebSocket, which loads the whole of fetch.
 */
const load = (protocol: string) =>
  protocol === 'https:' ? process.getBuiltinModule('node:https') : process.getBuiltinModule('node:http')

export async function send(
  address: string,
  { method, headers, body, signal, idleMs }: Request,
): Promise<IncomingMessage> {
  const url = new URL(address)
  const { request } = load(url.protocol)
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
  return new Promise((resolve, reject) => {
    const options: RequestOptions = { method, headers: { ...headers, ...length }, ...(signal && { signal }) }
    const sent = request(url, options, resolve)
    const fail = (error: Error) => reject(signal?.aborted ? signal.reason : new Unreachable(url.origin, explain(error)))
    sent.once('error', fail)
    sent.setTimeout(idleMs, () => sent.destroy(new Error(`no answer within ${Math.round(idleMs / 1000)} s`)))
    sent.end(body)
  })
}

const CAUSES: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was closed',
  EPIPE: 'the connection was closed',
  ETIMEDOUT: 'it did not answer in time',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'its network cannot be reached',
  ENOTFOUND: 'there is no host of this name',
  EAI_AGAIN: 'its name cannot be resolved',
  EPROTO: 'it does not speak TLS; the address probably begins with http://',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS; the address probably begins with http://',
  HPE_INVALID_CONSTANT: 'it does not speak HTTP',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed; name its authority in NODE_EXTRA_CA_CERTS',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is self-signed; name its authority in NODE_EXTRA_CA_CERTS',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is of an unknown authority; name it in NODE_EXTRA_CA_CERTS',
}

function explain(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return explain(error.errors[0])
  const code = (error as { code?: unknown } | null)?.code
  if (typeof code === 'string' && Object.hasOwn(CAUSES, code)) return CAUSES[code]!
  return error instanceof Error ? error.message : String(error)
}
