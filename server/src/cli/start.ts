/**
 * `sluice start`: the parent process. It owns the embedded database if there is one, and keeps the process that runs
 * all roles (keep-service.ts): when that crashes or is killed it is restarted, and the database stays up meanwhile. The
 * parent loads almost nothing, because it lives as long as the platform.
 */
import { readConfig } from '../config/config.ts'
import { openStore } from '../database/store.ts'
import { createLineLog } from '../log-lines.ts'
import { watchForEnd } from './end.ts'
import { keepService } from './keep-service.ts'

/** The service process has less than this after DRAIN_SECONDS, so that the database shuts down in order too. */
const CLOSE_MS = 1800

export async function start(): Promise<number> {
  const config = readConfig()
  const log = createLineLog(config.LOG_LEVEL)
  const end = watchForEnd(log, {
    drainMs: config.DRAIN_SECONDS * 1000,
    closeMs: CLOSE_MS,
    exitNow: () => {
      service.kill()
      process.exit(1)
    },
  })
  const opening = openStore(config, log)
  const service = keepService({ log, whenDatabaseAnswers: async () => (await opening).whenUp() })
  try {
    const store = await opening
    await Promise.race([end.begun, service.over])
    service.stop()
    const code = await service.over
    await store.close()
    return end.crashed() ? 1 : code
  } finally {
    // If the database did not start, the process that waits for it is still running.
    service.kill()
    await service.over
  }
}
