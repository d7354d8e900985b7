import { authorized } from '../../../api/client.ts'
import { readEvents } from '../../../api/event-stream.ts'

interface Follower {
  /** The number of the last line that is known already. */
  after: number
  signal: AbortSignal
  onLine(number: number, text: string): void
}

/** Every further line of a run's log until it is complete. A lost connection is taken up again after the last line. */
export async function followLog(id: string, { after, signal, onLine }: Follower): Promise<void> {
  let last = after
  for (let failures = 0; !signal.aborted; failures += 1) {
    try {
      const headers = new Headers({ Accept: 'text/event-stream', 'Last-Event-ID': String(last) })
      const request = new Request(`/api/pipelines/runs/${id}/logs/stream`, { headers, signal })
      const response = await authorized(request)
      if (response.status === 404) return
      if (!response.ok || response.body === null) throw new Error(`The log answered with status ${response.status}`)
      for await (const { event, id: number, data } of readEvents(response.body)) {
        if (event === 'end') return
        if (event !== 'line') continue
        failures = 0
        last = Number(number)
        onLine(last, data)
      }
    } catch {
      if (signal.aborted) return
    }
    await new Promise((resolve) => setTimeout(resolve, Math.min(250 * 2 ** failures, 15_000)))
  }
}
