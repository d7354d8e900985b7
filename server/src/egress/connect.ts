/**
 * Dials: resolve, check every answer, connect only to checked answers. The name is resolved once, so a DNS server that
 * changes its answer between check and connection (DNS rebinding) achieves nothing.
 */
import { connect as connectTcp, type LookupFunction, type Socket, type TcpNetConnectOpts } from 'node:net'
import type { Dispatcher } from 'undici'
import { loadUndici } from '../undici.ts'
import { parseAddress } from './addresses.ts'
import type { Guard } from './guard.ts'
import { normalizeTarget } from './hosts.ts'
import type { Answer, Lookup } from './lookup.ts'
import { EgressFailed } from './refusal.ts'

export interface DialOptions {
  signal?: AbortSignal
  timeoutMs?: number
}

export type Dial = (host: string, port: number, options?: DialOptions) => Promise<Socket>

const defaultTimeoutMs = 10_000
const keepAliveDelayMs = 30_000

export function createDial(guard: Guard, lookup: Lookup): Dial {
  return async (requestedHost, requestedPort, options = {}) => {
    const { host, port } = normalizeTarget(requestedHost, requestedPort)
    guard.checkTarget(host, port)
    const timeoutMs = options.timeoutMs ?? defaultTimeoutMs
    const deadline = new AbortController()
    const timer = setTimeout(() => {
      deadline.abort(new EgressFailed('timeout', `${host}:${port} did not accept a connection within ${timeoutMs} ms`))
    }, timeoutMs)
    const signal = options.signal ? AbortSignal.any([options.signal, deadline.signal]) : deadline.signal
    try {
      const answers = parseAddress(host)
        ? [{ address: host, family: host.includes(':') ? 6 : 4 }]
        : await untilAborted(resolve(host, lookup, signal), signal)
      const own = await untilAborted(resolveOwn(guard.ownNames(port), lookup, signal), signal)
      return await openSocket(host, port, guard.permitted(host, port, answers, own), signal)
    } finally {
      clearTimeout(timer)
    }
  }
}

async function resolve(host: string, lookup: Lookup, signal: AbortSignal): Promise<readonly Answer[]> {
  try {
    const answers = await lookup(host, signal)
    if (answers.length > 0) return answers
  } catch (error) {
    if (error instanceof EgressFailed) throw error
    if ((error as NodeJS.ErrnoException).code === 'ENOTFOUND')
      throw new EgressFailed('unknown_host', `the host ${host} does not exist; check its name`, error)
    throw new EgressFailed('dns', `the host ${host} cannot be resolved at the moment; try again later`, error)
  }
  throw new EgressFailed('unknown_host', `the host ${host} has no address; check its name`)
}

/** A name of ours that does not resolve has no address that could be reached. */
async function resolveOwn(names: readonly string[], lookup: Lookup, signal: AbortSignal): Promise<Answer[]> {
  if (names.length === 0) return []
  return (await Promise.all(names.map((name) => lookup(name, signal).catch(() => [])))).flat()
}

function openSocket(host: string, port: number, answers: readonly Answer[], signal: AbortSignal): Promise<Socket> {
  const giveAnswers: LookupFunction = (_host, options, callback) => {
    if (options.all) callback(null, [...answers])
    else callback(null, answers[0]!.address, answers[0]!.family)
  }
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const options: TcpNetConnectOpts & { highWaterMark: number } = {
      host,
      lookup: giveAnswers,
      port,
      autoSelectFamily: true,
      highWaterMark: 64 * 1024,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: keepAliveDelayMs,
    }
    const socket = connectTcp(options)
    const stop = () => {
      socket.off('connect', succeed)
      socket.off('error', fail)
      // A connection attempt that fails after we stopped listening must not end the process.
      socket.on('error', () => {})
      socket.destroy()
      reject(signal.reason)
    }
    const succeed = () => {
      signal.removeEventListener('abort', stop)
      socket.off('error', fail)
      resolve(preventRedial(socket))
    }
    const fail = (error: Error) => {
      signal.removeEventListener('abort', stop)
      reject(new EgressFailed('connection', `cannot connect to ${host}:${port}: ${explain(error)}`, error))
    }
    signal.addEventListener('abort', stop, { once: true })
    socket.once('connect', succeed)
    socket.once('error', fail)
  })
}

/**
 * Database drivers call `connect` on the socket they are given. Node would dial again, to an unchecked address; here it
 * only reports the existing connection.
 */
function preventRedial(socket: Socket): Socket {
  socket.connect = function reportConnected() {
    process.nextTick(() => socket.emit('connect'))
    return socket
  }
  return socket
}

const plainCauses: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was reset',
  EPIPE: 'the connection was closed',
  ETIMEDOUT: 'it did not answer in time',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'its network cannot be reached',
  UND_ERR_SOCKET: 'the connection was closed',
  UND_ERR_CONNECT_TIMEOUT: 'it did not answer in time',
}

export function explain(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return explain(error.errors[0])
  const code = (error as { code?: unknown } | null)?.code
  if (typeof code === 'string' && plainCauses[code]) return plainCauses[code]
  return error instanceof Error ? error.message : String(error)
}

/** Rejects with the signal's reason at once, without waiting for the promise. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop))
  })
}

/**
 * HTTP over the same dial. TLS is set up on the connected socket, with the requested name. `closing` aborts connections
 * that are still being made.
 */
export function createDispatcher(dial: Dial, closing: AbortSignal): Dispatcher {
  const { Agent, buildConnector } = loadUndici()
  const startTls = buildConnector({ timeout: defaultTimeoutMs, allowH2: true })
  return new Agent({
    // HTTP/2 if the server offers it.
    allowH2: true,
    connect(options, callback) {
      const secure = options.protocol === 'https:'
      const port = options.port ? Number(options.port) : secure ? 443 : 80
      dial(options.hostname, port, { signal: closing }).then(
        (socket) => {
          if (secure) startTls({ ...options, httpSocket: socket }, callback)
          else callback(null, socket)
        },
        (error: Error) => callback(error, null),
      )
    },
    headersTimeout: 60_000,
    bodyTimeout: 60_000,
  })
}
