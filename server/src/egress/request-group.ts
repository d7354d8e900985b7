/**
 * Requests that end together when a signal is aborted. A listener per request would cost a noticeable part of a small
 * request, so the group has one for all of them.
 */
export interface OpenRequest {
  abort(reason: Error): void
}

export class RequestGroup {
  readonly signal: AbortSignal
  readonly #open = new Set<OpenRequest>()

  constructor(signal: AbortSignal) {
    this.signal = signal
    signal.addEventListener('abort', () => {
      for (const request of [...this.#open]) request.abort(signal.reason)
    })
  }

  add(request: OpenRequest): void {
    this.#open.add(request)
  }

  delete(request: OpenRequest): void {
    this.#open.delete(request)
  }
}
