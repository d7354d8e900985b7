/** Memory that buffers hold. Those that nothing refers to wait for a collection, so one is made first. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose_gc')
const collectGarbage = runInNewContext('gc') as () => void

export function heldBytes(): number {
  collectGarbage()
  return process.memoryUsage().arrayBuffers
}
