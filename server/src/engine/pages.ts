import type { Page } from '../connectors/contract.ts'

/** How long a source may take to release its resources after it was asked to stop. */
const CLOSE_MS = 2000

/**
 * The pages of a reading, ended at once by the signal even if the source ignores it. (A Promise.race per page against
 * one promise for the signal would keep every page alive until the end of the run.)
 */
export async function* followPages(pages: AsyncIterable<Page>, signal: AbortSignal): AsyncGenerator<Page> {
  const iterator = pages[Symbol.asyncIterator]()
  let rejectWaiting: ((reason: unknown) => void) | null = null
  const stop = (): void => rejectWaiting?.(signal.reason)
  signal.addEventListener('abort', stop)
  try {
    while (true) {
      signal.throwIfAborted()
      const result = await new Promise<IteratorResult<Page>>((resolve, reject) => {
        rejectWaiting = reject
        iterator.next().then(resolve, reject)
      })
      rejectWaiting = null
      if (result.done) return
      yield result.value
    }
  } finally {
    signal.removeEventListener('abort', stop)
    await closeWithin(iterator, CLOSE_MS)
  }
}

/**
 * Ends a reading that will not be read. A generator that never started does not run its `finally`, so it is started
 * first; the signal is already aborted, so it stops at its first page at the latest.
 */
export async function discardPages(pages: AsyncIterable<Page>): Promise<void> {
  const iterator = pages[Symbol.asyncIterator]()
  await within(CLOSE_MS, iterator.next().then(noop, noop))
  await closeWithin(iterator, CLOSE_MS)
}

async function closeWithin(iterator: AsyncIterator<Page>, ms: number): Promise<void> {
  if (iterator.return) await within(ms, iterator.return().then(noop, noop))
}

async function within(ms: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, late])
  clearTimeout(timer)
}

function noop(): void {}
