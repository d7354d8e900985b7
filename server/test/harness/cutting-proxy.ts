/**
 * A TCP proxy between a client and PostgreSQL that simulates a bad network. It cuts both connections when it sees given
 * bytes pass from client to server: before they are passed on, or after, so that the server acts on them and its answer
 * is lost. It can fall silent: existing connections stay open but transmit nothing, as when a machine disappears.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type NetConnectOpts, type Socket } from 'node:net'

export interface CuttingProxy {
  port: number
  /**
   * Cuts at the nth message that contains the text, and accepts no new connection for some time, like a restarting
   * server.
   */
  cutAt(text: string, nth: number, when: 'before' | 'after', awayMs?: number): void
  /** How often it has cut. */
  readonly cuts: number
  /** Called once, when the text passes, before it is passed on. */
  whenSees(text: string, act: () => void): void
  /** From now on nothing passes on existing connections. New ones work, as after a failover, unless `all`. */
  fallSilent(all?: boolean): void
  /** New connections work again. */
  recover(): void
  /** Cuts all connections and accepts no new one, until told otherwise. */
  refuse(refusing: boolean): void
  close(): Promise<void>
}

export async function startCuttingProxy(target: NetConnectOpts): Promise<CuttingProxy> {
  let plan: { text: string; left: number; when: 'before' | 'after'; awayMs: number } | null = null
  let awayUntil = 0
  let watch: { text: string; act: () => void } | null = null
  let cuts = 0
  let deaf = false
  const silent = new WeakSet<Socket>()
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    if (Date.now() < awayUntil) return void client.destroy()
    const upstream = connect(target)
    for (const socket of [client, upstream]) {
      if (deaf) silent.add(socket)
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    upstream.on('data', (chunk) => {
      if (!silent.has(client)) client.write(chunk)
    })
    client.on('data', (chunk: Buffer) => {
      if (silent.has(client)) return
      if (watch !== null && chunk.includes(watch.text)) {
        const { act } = watch
        watch = null
        act()
      }
      const due = plan !== null && chunk.includes(plan.text) && --plan.left === 0
      if (!due) return void upstream.write(chunk)
      const { when, awayMs } = plan!
      plan = null
      awayUntil = Date.now() + awayMs
      cuts += 1
      if (when === 'before') return void client.destroy()
      // The answer must not come back, but the server must have acted: it closes when it has read our end.
      upstream.removeAllListeners('data')
      upstream.on('data', () => undefined)
      upstream.end(chunk)
      client.destroy()
      upstream.removeAllListeners('close')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    cutAt(text, nth, when, awayMs = 0) {
      plan = { text, left: nth, when, awayMs }
    },
    get cuts() {
      return cuts
    },
    whenSees(text, act) {
      watch = { text, act }
    },
    fallSilent(all = false) {
      deaf = all
      for (const socket of sockets) silent.add(socket)
    },
    recover() {
      deaf = false
    },
    refuse(refusing) {
      awayUntil = refusing ? Number.POSITIVE_INFINITY : 0
      if (refusing) for (const socket of sockets) socket.destroy()
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
