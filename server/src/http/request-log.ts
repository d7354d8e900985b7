/** The log of requests. Most write nothing, so what a line needs is made when there is one. */
import type { FastifyBaseLogger } from 'fastify'
import type { App } from './app-type.ts'

/** A logger that carries the request's id from its first line on. */
class RequestLogger {
  readonly #base: FastifyBaseLogger
  readonly #bindings: object
  readonly #options: object
  #made: FastifyBaseLogger | undefined
  constructor(base: FastifyBaseLogger, bindings: object, options: object) {
    this.#base = base
    this.#bindings = bindings
    this.#options = options
  }
  get #log(): FastifyBaseLogger {
    this.#made ??= this.#base.child(this.#bindings, this.#options)
    return this.#made
  }
  get level(): string {
    return this.#base.level
  }
  child(bindings: object, options?: object): FastifyBaseLogger {
    return this.#log.child(bindings, options)
  }
  silent(): void {}
  trace(...line: [object, string]): void {
    this.#log.trace(...line)
  }
  debug(...line: [object, string]): void {
    this.#log.debug(...line)
  }
  info(...line: [object, string]): void {
    this.#log.info(...line)
  }
  warn(...line: [object, string]): void {
    this.#log.warn(...line)
  }
  error(...line: [object, string]): void {
    this.#log.error(...line)
  }
  fatal(...line: [object, string]): void {
    this.#log.fatal(...line)
  }
}

export const makeRequestLogger = (base: FastifyBaseLogger, bindings: object, options: object): FastifyBaseLogger =>
  new RequestLogger(base, bindings, options) as unknown as FastifyBaseLogger

export function logRequests(app: App): void {
  app.addHook('onResponse', (request, reply, done) => {
    const { statusCode: status } = reply
    const quiet = status < 500 && (request.method === 'GET' || request.method === 'OPTIONS')
    if (quiet && app.log.level !== 'debug') return done()
    request.log[status >= 500 ? 'warn' : quiet ? 'debug' : 'info'](
      {
        method: request.method,
        path: request.url.split('?')[0],
        status,
        ms: Math.round(reply.elapsedTime * 10) / 10,
      },
      'request',
    )
    done()
  })
}
