/**
 * The process that runs all roles of `sluice start`. Its parent (start.ts) keeps the database, and restarts this
 * process when it exits. It loads its code while the database starts, and continues when the parent tells it to.
 */
import { readConfig } from '../config/config.ts'
import { joinStore } from '../database/store.ts'
import { isExpected } from '../errors.ts'
import { ALL_ROLES, loadRole, runRoles } from './roles.ts'
import { CANNOT_START, type FromService, type ToService } from './service-messages.ts'

/** Loading leaves a heap behind that is half garbage, and V8 keeps it while the process is idle. */
const COLLECT_AFTER_MS = 2000

const begun = new Promise<ToService>((resolve) => process.once('message', resolve))
// The kernel ends this process with its parent where supported (PDEATHSIG); this is the fallback.
process.once('disconnect', () => process.exit(1))

/** Resolves when the message is sent, or cannot be sent any more. */
const tellParent = (message: FromService) =>
  new Promise<void>((resolve) => process.send!(message, undefined, undefined, () => resolve()))

async function run(): Promise<number> {
  await Promise.all(ALL_ROLES.map((role) => loadRole[role]()))
  const { port } = await begun
  process.channel?.unref()
  const config = readConfig()
  if (port !== null) config.PORT = port
  return runRoles(ALL_ROLES, config, {
    open: joinStore,
    onReady: async (port) => {
      await tellParent({ type: 'ready', port })
      setTimeout(
        () => globalThis.gc?.({ type: 'major', flavor: 'last-resort', execution: 'sync' }),
        COLLECT_AFTER_MS,
      ).unref()
    },
  })
}

try {
  process.exit(await run())
} catch (error) {
  console.error(isExpected(error) ? error.message : error)
  process.exit(isExpected(error) ? CANNOT_START : 1)
}
