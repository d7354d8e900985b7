import type { Page } from '../connectors/contract.ts'

/** How long a source may take to let go of what it holds after it was told to stop. */
const CLOSE_MS = 2000

/**
 * The pages of a reading, ended at once by the signal even where the source is deaf to it. (A Promise.race per page with
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

async function closeWithin(iterator: AsyncIterator<Page>, ms: number): Promise<void> {
  if (!iterator.return) return
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([iterator.return().then(noop, noop), late])
  clearTimeout(timer)
}

function noop(): void {}
