/**
 * One connection per process that hears NOTIFY, shared by all who listen. It is opened with the first of them and closed
 * with the last, and made again when it breaks. What was sent meanwhile is lost: `onGap` is called after each time, so
 * that whoever listens looks for it.
 *
 * A connection that only listens never notices that the other side is gone. So it asks now and then whether anybody is
 * there, and is made again when no answer comes.
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

const AGAIN_AFTER_MS = [100, 1000, 2000, 5000]
const PROBE_EVERY_MS = 10_000
const PROBE_ANSWER_MS = 5000

export function createListener(options: pg.ClientConfig, onError: (error: Error) => void): Listener {
  const subscribers = new Set<Subscriber>()
  let connection: Promise<pg.Client> | null = null
  let retry: NodeJS.Timeout | undefined

  const listenTo = (client: pg.Client, channel: string) => client.query(`LISTEN ${pg.escapeIdentifier(channel)}`)

  const connect = async (): Promise<pg.Client> => {
    const client = new SessionClient(options)
    client.on('notification', ({ channel, payload }) => {
      for (const subscriber of subscribers) if (subscriber.channel === channel) subscriber.onMessage(payload ?? '')
    })
    client.on('error', onError)
    await client.connect()
    try {
      await setUpSession(client, CONTROL_LIMITS)
      for (const channel of new Set([...subscribers].map((subscriber) => subscriber.channel)))
        await listenTo(client, channel)
    } catch (error) {
      dropConnection(client)
      throw error
    }
    const probing = setInterval(() => probe(client, onError), PROBE_EVERY_MS).unref()
    client.once('end', () => clearInterval(probing))
    // Only a connection that once stood is replaced from here; one that could not be made is the caller's to try again.
    client.once('end', () => {
      if (connection === null) return
      connection = null
      reconnect(0)
    })
    return client
  }
  const reconnect = (tries: number) => {
    if (subscribers.size === 0) return
    retry = setTimeout(
      () => {
        connection = connect()
        connection.then(
          () => {
            for (const subscriber of subscribers) subscriber.onGap()
          },
          (error: Error) => {
            connection = null
            onError(error)
            reconnect(tries + 1)
          },
        )
      },
      AGAIN_AFTER_MS[Math.min(tries, AGAIN_AFTER_MS.length - 1)],
    )
  }
  const disconnect = async () => {
    clearTimeout(retry)
    const closing = connection
    connection = null
    const client = await closing?.catch(() => null)
    await client?.end().catch(() => {})
  }

  return {
    async subscribe(subscriber) {
      subscribers.add(subscriber)
      try {
        connection ??= connect()
        await listenTo(await connection, subscriber.channel)
      } catch (error) {
        subscribers.delete(subscriber)
        connection = null
        throw error
      }
      subscriber.onGap()
      return async () => {
        subscribers.delete(subscriber)
        if (subscribers.size === 0) await disconnect()
      }
    },
    async close() {
      subscribers.clear()
      await disconnect()
    },
  }
}

function probe(client: pg.Client, onError: (error: Error) => void): void {
  const silent = setTimeout(() => {
    onError(new Error('the connection that listens for notifications went silent; it is made again'))
    dropConnection(client)
  }, PROBE_ANSWER_MS)
  client.query('SELECT 1').then(
    () => clearTimeout(silent),
    () => clearTimeout(silent),
  )
}
