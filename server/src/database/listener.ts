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

/** A connection, which takes one query after the other. */
interface Line {
  client: pg.Client
  ask(text: string): Promise<unknown>
}

class SharedListener implements Listener {
  readonly #settings: ListenerSettings
  readonly #subscribers = new Set<Subscriber>()
  #connection: Promise<Line> | null = null
  /** Once it is connected. */
  #client: pg.Client | null = null
  #retry: NodeJS.Timeout | undefined

  constructor(settings: ListenerSettings) {
    this.#settings = settings
    settings.servers.onMove(() => {
      if (this.#client) dropConnection(this.#client)
    })
  }

  async subscribe(subscriber: Subscriber): Promise<() => Promise<void>> {
    this.#subscribers.add(subscriber)
    const connection = this.#connection ?? this.#open()
    let line: Line | null = null
    try {
      line = await connection
      await line.ask(listenTo(subscriber.channel))
    } catch (error) {
      this.#subscribers.delete(subscriber)
      // Others get a new one when this one has ended.
      if (line) dropConnection(line.client)
      else this.#forget(connection)
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

  #open(): Promise<Line> {
    const connection = this.#connect(() => {
      // Another one if it was closed on purpose.
      if (this.#connection !== connection) return
      this.#connection = null
      this.#settings.servers.doubt()
      this.#reconnect(0)
    })
    this.#connection = connection
    return connection
  }

  async #connect(onEnd: () => void): Promise<Line> {
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
    const line = lineOf(client)
    try {
      await setUpSession(client, setUp)
      const channels = new Set([...this.#subscribers].map((subscriber) => subscriber.channel))
      for (const channel of channels) await line.ask(listenTo(channel))
    } catch (error) {
      servers.doubt()
      dropConnection(client)
      throw error
    }
    const probing = setInterval(() => probe(line, onError, onSilence), PROBE_EVERY_MS).unref()
    this.#client = client
    client.once('end', () => {
      clearInterval(probing)
      if (this.#client === client) this.#client = null
      onEnd()
    })
    return line
  }

  #reconnect(tries: number): void {
    if (this.#subscribers.size === 0) return
    const attempt = () => {
      // A new subscriber may have been faster.
      const connection = this.#connection ?? this.#open()
      connection.then(
        () => {
          for (const subscriber of this.#subscribers) subscriber.onGap()
        },
        (error: Error) => {
          this.#forget(connection)
          this.#settings.onError(error)
          this.#reconnect(tries + 1)
        },
      )
    }
    this.#retry = setTimeout(attempt, RECONNECT_MS[Math.min(tries, RECONNECT_MS.length - 1)])
  }

  #forget(failed: Promise<Line>): void {
    if (this.#connection === failed) this.#connection = null
  }

  async #disconnect(): Promise<void> {
    clearTimeout(this.#retry)
    const closing = this.#connection
    this.#connection = null
    const line = await closing?.catch(() => null)
    await line?.client.end().catch(() => {})
  }
}

function lineOf(client: pg.Client): Line {
  let last: Promise<unknown> = Promise.resolve()
  return {
    client,
    ask(text) {
      const answer = last.then(() => client.query(text))
      last = answer.catch(() => undefined)
      return answer
    },
  }
}

const listenTo = (channel: string): string => `LISTEN ${pg.escapeIdentifier(channel)}`

function probe({ client, ask }: Line, onError: (error: Error) => void, onSilence: () => void): void {
  const silent = setTimeout(() => {
    onError(new Error('the connection that receives notifications stopped answering; opening a new one'))
    onSilence()
    dropConnection(client)
  }, PROBE_ANSWER_MS)
  ask('SELECT 1').then(
    () => clearTimeout(silent),
    () => clearTimeout(silent),
  )
}
