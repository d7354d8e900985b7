/**
 * The executor: the process that handles the bytes of tenants and of the servers they name. It has its own process
 * group, an empty environment and no connection to the platform's database. Its service sends it work over file
 * descriptor 3; when that closes, the service is gone and this process exits too.
 */

import { flushCompileCache } from 'node:module'
import { Socket } from 'node:net'
import { shrinkHeap } from '../heap.ts'
import { type Channel, openChannel } from './channel.ts'
import type { ExecutorSettings, Served, ToExecutor } from './messages.ts'

const CHANNEL_FD = 3
const SETTLE_MS = 500
/** The service is trusted; this only guards against a nonsensical length. */
const GIGABYTE = 1024 ** 3
const LIMITS = { head: GIGABYTE, body: 0, perSecond: { frames: 1_000_000, bytes: 4 * GIGABYTE } }

const socket = new Socket({ fd: CHANNEL_FD, readable: true, writable: true })
let served: Promise<Served> | undefined

const channel: Channel = openChannel(socket, LIMITS, {
  message(message) {
    const said = message as ToExecutor
    if (said.type === 'settings') served = serve(said.settings)
    else void served?.then((host) => host.receive(said))
  },
  broken: () => process.exit(1),
})
socket.once('close', () => process.exit(0))

/** Once, while idle after the start. */
async function settle(host: Served): Promise<void> {
  await host.preload()
  // An executor is usually killed, and would otherwise never write its compile cache for the next one.
  flushCompileCache()
  shrinkHeap()
}

async function serve(settings: ExecutorSettings): Promise<Served> {
  const host =
    settings.serves === 'runs'
      ? (await import('./run-host.ts')).serveRuns(settings, channel)
      : await (await import('./call-host.ts')).serveCalls(settings, channel)
  channel.send({ type: 'ready' })
  // What cannot be loaded now is reported by the run that needs it.
  setTimeout(() => void settle(host).catch(() => undefined), SETTLE_MS).unref()
  return host
}
