/**
 * One connection per process that receives NOTIFY, shared by all subscribers. It is opened for the first of them, closed
 * after the last, and opened again when it breaks. Notifications sent in between are lost, so `onGap` is called after each
 * connect, and the subscriber looks for what it missed.
 *
 * A connection that only listens never notices that the other side is gone. It therefore sends a query now and then, and
 * is replaced when no answer comes.
 */
import pg from 'pg'
import { CONTROL_LIMITS, dropConnection, SessionClient, setUpSession } from './session.ts'

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

export const createListener = (options: pg.ClientConfig, onError: (error: Error) => void): Listener =>
  new SharedListener(options, onError)

class SharedListener implements Listener {
  readonly #options: pg.ClientConfig
  readonly #onError: (error: Error) => void
  readonly #subscribers = new Set<Subscriber>()
  #connection: Promise<pg.Client> | null = null
  #retry: NodeJS.Timeout | undefined

  constructor(options: pg.ClientConfig, onError: (error: Error) => void) {
    this.#options = options
    this.#onError = onError
  }

  async subscribe(subscriber: Subscriber): Promise<() => Promise<void>> {
    this.#subscribers.add(subscriber)
    try {
      this.#connection ??= this.#connect()
      await listenTo(await this.#connection, subscriber.channel)
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
    const client = new SessionClient(this.#options)
    client.on('notification', ({ channel, payload }) => {
      for (const subscriber of this.#subscribers)
        if (subscriber.channel === channel) subscriber.onMessage(payload ?? '')
    })
    client.on('error', this.#onError)
    await client.connect()
    try {
      await setUpSession(client, CONTROL_LIMITS)
      const channels = new Set([...this.#subscribers].map((subscriber) => subscriber.channel))
      for (const channel of channels) await listenTo(client, channel)
    } catch (error) {
      dropConnection(client)
      throw error
    }
    const probing = setInterval(() => probe(client, this.#onError), PROBE_EVERY_MS).unref()
    client.once('end', () => {
      clearInterval(probing)
      // Null if the connection was closed on purpose.
      if (this.#connection === null) return
      this.#connection = null
      this.#reconnect(0)
    })
    return client
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
          this.#onError(error)
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

const listenTo = (client: pg.Client, channel: string) => client.query(`LISTEN ${pg.escapeIdentifier(channel)}`)

function probe(client: pg.Client, onError: (error: Error) => void): void {
  const silent = setTimeout(() => {
    onError(new Error('the connection that receives notifications stopped answering; opening a new one'))
    dropConnection(client)
  }, PROBE_ANSWER_MS)
  client.query('SELECT 1').then(
    () => clearTimeout(silent),
    () => clearTimeout(silent),
  )
}
