/**
 * `sluice manifest check FILE…`: what of declarative Airbyte manifests runs here. Nothing is sent anywhere; no service is
 * needed. A manifest runs whole if every stream compiles to a plan that does what it says.
 */
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { Verdict } from '../connectors/registry.ts'

const SHOWN_REASONS = 20
const WORDS: Record<Verdict['runs'], string> = { whole: 'runs whole', part: 'runs in part', no: 'does not run' }

/** Fewer files are checked sooner than threads start. */
const MOST_ALONE = 40
const THREADS = 2

export async function checkManifests(files: string[], options: Record<string, string>): Promise<number> {
  let whole = true
  for await (const { file, verdict } of checkAll(files)) {
    if (verdict.runs !== 'whole') whole = false
    console.log(options['--json'] === undefined ? inWords(file, verdict) : JSON.stringify({ file, ...verdict }))
  }
  return whole ? 0 : 1
}

/** In the order of the files. */
async function* checkAll(files: string[]): AsyncGenerator<{ file: string; verdict: Verdict }> {
  if (files.length <= MOST_ALONE || availableParallelism() === 1) {
    const { checkFile } = await import('./manifest-worker.ts')
    for (const file of files) yield { file, verdict: await checkFile(file) }
    return
  }
  const verdicts = files.map(() => Promise.withResolvers<Verdict>())
  let next = 0
  const take = (): number => next++
  const threads = Array.from({ length: THREADS }, () => startThread(files, verdicts, take))
  try {
    for (const [index, file] of files.entries()) yield { file, verdict: await verdicts[index]!.promise }
  } finally {
    await Promise.all(threads.map((thread) => thread.terminate()))
  }
}

/** Each thread takes the next file when it is done with one. */
function startThread(files: string[], verdicts: PromiseWithResolvers<Verdict>[], next: () => number): Worker {
  const worker = new Worker(new URL('./manifest-worker.ts', import.meta.url))
  let current = -1
  const take = (): void => {
    current = next()
    if (current < files.length) worker.postMessage(files[current])
  }
  worker.on('message', (verdict: Verdict) => {
    verdicts[current]?.resolve(verdict)
    take()
  })
  worker.on('error', (error) => verdicts[current]?.reject(error))
  take()
  return worker
}

function inWords(file: string, { runs, streams, runnable, reasons }: Verdict): string {
  const head = `${file}: ${WORDS[runs]} (${runnable} of ${streams} streams)`
  const rest = reasons.length > SHOWN_REASONS ? [`  and ${reasons.length - SHOWN_REASONS} more; see --json`] : []
  return [head, ...reasons.slice(0, SHOWN_REASONS).map((reason) => `  ${reason}`), ...rest].join('\n')
}
