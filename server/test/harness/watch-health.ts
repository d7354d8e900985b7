/**
 * Sends the same small requests to a service again and again, from a separate thread, so that the load of the tests
 * does not count as slowness of the service. The longest wait is what people would notice.
 */
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'

export interface Asked {
  url: string
  headers?: Record<string, string>
}

export interface Felt {
  answers: number
  slowestMs: number
  /** Answers other than 200, and errors. */
  failures: string[]
}

const PAUSE_MS = 5

/** Every URL is requested in sequence with a short pause, until the watch is ended. */
export function watchHealth(asked: Asked[]): { end(): Promise<Felt[]> } {
  const worker = new Worker(new URL(import.meta.url), { workerData: asked })
  const failed = once(worker, 'error').then(([error]) => Promise.reject(error))
  failed.catch(() => undefined)
  return {
    async end() {
      const felt = once(worker, 'message')
      worker.postMessage('end')
      const [answer] = await Promise.race([felt, failed])
      await worker.terminate()
      return answer as Felt[]
    },
  }
}

async function watch(asked: Asked, ending: AbortSignal, agent: Agent): Promise<Felt> {
  const felt: Felt = { answers: 0, slowestMs: 0, failures: [] }
  while (!ending.aborted) {
    const began = performance.now()
    const outcome = await ask(asked, agent).catch((error: Error) => error.message)
    felt.slowestMs = Math.max(felt.slowestMs, performance.now() - began)
    felt.answers += 1
    if (outcome !== 200 && felt.failures.length < 10) felt.failures.push(String(outcome))
    await delay(PAUSE_MS)
  }
  return felt
}

function ask({ url, headers = {} }: Asked, agent: Agent): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent, headers }, (response) =>
      response.resume().on('end', () => resolve(response.statusCode)),
    )
    sent.on('error', reject).end()
  })
}

if (!isMainThread) {
  const ending = new AbortController()
  parentPort!.once('message', () => ending.abort())
  const agent = new Agent({ keepAlive: true })
  const felt = await Promise.all((workerData as Asked[]).map((each) => watch(each, ending.signal, agent)))
  agent.destroy()
  parentPort!.postMessage(felt)
}
