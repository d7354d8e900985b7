/**
 * Loading a program leaves V8 with a heap twice the size of what is in it, and V8 gives that back only under pressure. A
 * process that is going to wait gives it back by itself: for the service that is 40 MB, for an executor 10.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

export function shrinkHeap(): void {
  // The function exists only in contexts that are made after this; the flag has no other effect.
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as (options: { type: 'major'; flavor: 'last-resort' }) => void
  collect({ type: 'major', flavor: 'last-resort' })
}
