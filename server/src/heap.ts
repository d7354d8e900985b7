/**
 * Loading a program leaves V8 with a heap twice the size of its content, which V8 only releases under pressure. A
 * process that is about to be idle releases it explicitly: 40 MB for the service, 10 MB for an executor.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

export function shrinkHeap(): void {
  // The function only exists in contexts created after this; the flag has no other effect.
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as (options: { type: 'major'; flavor: 'last-resort' }) => void
  collect({ type: 'major', flavor: 'last-resort' })
}
