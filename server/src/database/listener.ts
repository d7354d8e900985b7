/**
 * One connection per process that receives NOTIFY, shared by all subscribers. It is opened for the first of them, closed
 * after the last, and opened again when it breaks. Notifications sent in between are lost, so `onGap` is called after each
 * connect, and the subscriber looks for what it missed.
 *
 * A connection that only listens never notices that the other side is gone. It therefore sends a query now and then, and
 * is replaced when no answer comes.
 */
import pg from 'pg'
import type { Servers } from './servers.ts'
import { dropConnection, SessionClient, type SessionSetUp, sessionOptions, setUpSession } from './session.ts'

interface Subscriber {
  channel: string
  onMessage: (payload: string) => void
  onGap: () => void
}

export interface Listener {
  subscribe(subscriber: Subscriber): Promise<() => Promise<void>>
  close(): Promise<void>
}

const RECONNECT_MS = [100, 1000, 2000, 5000]
const PROBE_EVERY_MS = 10_000
const PROBE_ANSWER_MS = 5000

export interface ListenerSettings {
  servers: Servers
  setUp: SessionSetUp
  onError: (error: Error) => void
  /** The server does not answer. */
  onSilence: () => void
}

export const createListener = (settings: ListenerSettings): Listener => new SharedListener(settings)

class SharedListener implements Listener {
  readonly #settings: ListenerSettings
  readonly #subscribers = new Set<Subscriber>()
  #connection: Promise<pg.Client> | null = null
  /** Once it is connected. */
  #client: pg.Client | null = null
  #retry: NodeJS.Timeout | undefined
  #lastQuery: Promise<unknown> = Promise.resolve()

  constructor(settings: ListenerSettings) {
    this.#settings = settings
    settings.servers.onMove(() => {
      if (this.#client) dropConnection(this.#client)
    })
  }

  async subscribe(subscriber: Subscriber): Promise<() => Promise<void>> {
    this.#subscribers.add(subscriber)
    try {
      this.#connection ??= this.#connect()
      const client = await this.#connection
      await this.#query(client, listenTo(subscriber.channel))
    } catch (error) {
      this.#subscribers.delete(subscriber)
      await this.#abandon()
      throw error
    }
    subscriber.onGap()
    return async () => {
      this.#subscribers.delete(subscriber)
      if (this.#subscribers.size === 0) await this.#disconnect()
    }
  }

  async close(): Promise<void> {
    this.#subscribers.clear()
    await this.#disconnect()
  }

  async #connect(): Promise<pg.Client> {
    const { servers, setUp, onError, onSilence } = this.#settings
    await servers.require()
    const client = new SessionClient({ ...sessionOptions(setUp.limits), ...servers.next() })
    client.on('notification', ({ channel, payload }) => {
      for (const subscriber of this.#subscribers)
        if (subscriber.channel === channel) subscriber.onMessage(payload ?? '')
    })
    client.on('error', onError)
    await client.connect().catch((error: Error) => {
      servers.doubt()
      throw error
    })
    try {
      await setUpSession(client, setUp)
      const channels = new Set([...this.#subscribers].map((subscriber) => subscriber.channel))
      for (const channel of channels) await client.query(listenTo(channel))
    } catch (error) {
      servers.doubt()
      dropConnection(client)
      throw error
    }
    const ask = () => this.#query(client, 'SELECT 1')
    const silent = (error: Error) => {
      onError(error)
      onSilence()
      dropConnection(client)
    }
    const probing = setInterval(() => probe(ask, silent), PROBE_EVERY_MS).unref()
    this.#client = client
    this.#lastQuery = Promise.resolve()
    client.once('end', () => {
      clearInterval(probing)
      this.#client = null
      // Null if the connection was closed on purpose.
      if (this.#connection === null) return
      servers.doubt()
      this.#connection = null
      this.#reconnect(0)
    })
    return client
  }

  /** Subscribers come at any time, and the driver takes one query after the other. */
  #query(client: pg.Client, text: string): Promise<unknown> {
    const answer = this.#lastQuery.then(() => client.query(text))
    this.#lastQuery = answer.catch(() => undefined)
    return answer
  }

  #reconnect(tries: number): void {
    if (this.#subscribers.size === 0) return
    const attempt = () => {
      this.#connection = this.#connect()
      this.#connection.then(
        () => {
          for (const subscriber of this.#subscribers) subscriber.onGap()
        },
        (error: Error) => {
          this.#connection = null
          this.#settings.onError(error)
          this.#reconnect(tries + 1)
        },
      )
    }
    this.#retry = setTimeout(attempt, RECONNECT_MS[Math.min(tries, RECONNECT_MS.length - 1)])
  }

  /** After a failure: drops the connection, and replaces it if there are still subscribers. */
  async #abandon(): Promise<void> {
    const client = await this.#connection?.catch(() => null)
    if (client) dropConnection(client)
    else this.#connection = null
  }

  async #disconnect(): Promise<void> {
    clearTimeout(this.#retry)
    const closing = this.#connection
    this.#connection = null
    const client = await closing?.catch(() => null)
    await client?.end().catch(() => {})
  }
}

const listenTo = (channel: string): string => `LISTEN ${pg.escapeIdentifier(channel)}`

function probe(ask: () => Promise<unknown>, onSilence: (error: Error) => void): void {
  const silent = setTimeout(
    () => onSilence(new Error('the connection that receives notifications stopped answering; opening a new one')),
    PROBE_ANSWER_MS,
  )
  ask().then(
    () => clearTimeout(silent),
    () => clearTimeout(silent),
  )
}
