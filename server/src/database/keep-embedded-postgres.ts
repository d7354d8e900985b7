/** Keeps the embedded database running: whenever it exits unexpectedly, it is restarted. */
import { setTimeout as delay } from 'node:timers/promises'
import type { LineLog } from '../log-lines.ts'
import type { ConnectionSettings } from './database.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from './embedded-postgres.ts'

const AGAIN_AFTER_MS = 1000

export interface KeptPostgres {
  connection: ConnectionSettings
  /** Resolves when it is up: at once, or when it is back. */
  whenUp(): Promise<void>
  stop(): Promise<void>
}

export async function keepEmbeddedPostgres(dataDir: string, password: string, log: LineLog): Promise<KeptPostgres> {
  const stopping = new AbortController()
  let current = await startEmbeddedPostgres(dataDir, password)
  let up = Promise.resolve()
  const startAgain = async (said: string): Promise<void> => {
    log.error({ said }, 'the embedded PostgreSQL exited; starting it again')
    while (!stopping.signal.aborted) {
      try {
        current = await startEmbeddedPostgres(dataDir, password)
        log.info({}, 'the embedded PostgreSQL is back')
        return watch(current)
      } catch (error) {
        log.error({ err: error }, 'the embedded PostgreSQL did not start; trying again in a second')
        await delay(AGAIN_AFTER_MS, undefined, { signal: stopping.signal }).catch(() => {})
      }
    }
  }
  const watch = (server: EmbeddedPostgres): void => {
    void server.ended.then((said) => {
      if (!stopping.signal.aborted) up = startAgain(said)
    })
  }
  watch(current)
  return {
    connection: current.connection,
    whenUp: () => up,
    async stop() {
      stopping.abort()
      // If it is being restarted, wait for the outcome.
      await up
      await current.stop()
    },
  }
}
