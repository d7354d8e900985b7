/**
 * Statements over the HTTP interface. The user and the password travel in a header, values as query parameters of
 * ClickHouse where it has them, and redirects are never followed. The other side may be anybody's server: every answer
 * but a stream of rows has a size and a deadline.
 */
import { randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Egress, headerOf, type StreamAnswer } from '../../../egress/policy.ts'
import { ConnectorError } from '../../contract.ts'
import type { Side } from '../../http-failures.ts'
import { unescapeField } from '../../types/tsv.ts'
import { code, codeOf, explainFailure, findException, ServerError } from './errors.ts'
import { CutAnswer, ForeignAnswer, frameSettings, RowScanner } from './row-scanner.ts'
import { describeTarget, originOf, type Target } from './settings.ts'
import type { RowOf, Shape } from './values.ts'

const SMALL_ANSWER = 16 * 1024 * 1024
const SMALL_ROWS = 200_000
const ERROR_BYTES = 64 * 1024
/** How long the server may work without a word, if the settings do not limit it. */
const SILENCE_MS = 6 * 3600_000
const CHECK_MS = 15_000
/** Waits before a statement is tried again that the server was too busy for. */
const BUSY_WAITS_MS = [250, 1000, 4000, 15_000, 30_000]

export interface Statement {
  sql: string
  /** Values for `{name:Type}` in the statement. */
  params?: Readonly<Record<string, string>>
  settings?: Readonly<Record<string, string | number>>
  /** Rows that follow the statement. */
  rows?: Buffer
}

export interface ClientOptions {
  egress: Egress
  signal: AbortSignal
  side: Side
  target: Target
  /** The server ends a statement that takes longer. 0: never. */
  timeoutSeconds: number
  /** People wait for a check. */
  hurry?: boolean
}

export class Client {
  readonly target: Target
  readonly side: Side
  readonly #options: ClientOptions

  constructor(options: ClientOptions) {
    this.target = options.target
    this.side = options.side
    this.#options = options
  }

  /** A statement without a result. One that the server is too busy for is sent again after a while. */
  async run(statement: Statement): Promise<void> {
    for (let tries = 0; ; tries += 1) {
      try {
        const { body } = await this.#send(statement, { wait_end_of_query: 1 })
        return await drain(body)
      } catch (error) {
        const number = codeOf(error)
        const busy = number === code.tooManyParts || number === code.tooManyQueries
        const wait = BUSY_WAITS_MS[tries]
        if (!busy || wait === undefined || this.#options.hurry) throw error
        await sleep(wait, undefined, { signal: this.#options.signal })
      }
    }
  }

  /** The rows of a small result. */
  async query<S extends Shape>(
    sql: string,
    shape: S,
    params: Record<string, string> = {},
    settings: Record<string, string | number> = {},
  ): Promise<RowOf<S>[]> {
    const names = Object.keys(shape)
    const rows: RowOf<S>[] = []
    const take = (bytes: Buffer, start: number, end: number): void => {
      const fields = bytes.toString('utf8', start, end).split('\t').map(readField)
      const values = names.map((name, at) => [name, shape[name]!(fields[at] ?? null)] as const)
      const wrong = values.find(([, value]) => value === undefined)
      if (wrong !== undefined || rows.length === SMALL_ROWS) throw new ForeignAnswer()
      rows.push(Object.fromEntries(values) as RowOf<S>)
    }
    let bytes = 0
    for await (const chunk of this.stream({ sql, params, settings }, names.length, take)) {
      bytes += chunk
      if (bytes > SMALL_ANSWER) throw new ForeignAnswer()
    }
    return rows
  }

  /** Runs a SELECT and gives its rows to `take`. Yields the size of every chunk after its rows were given. */
  async *stream(
    statement: Statement,
    fields: number,
    take: (bytes: Buffer, start: number, end: number, special: boolean) => void,
  ): AsyncGenerator<number> {
    const mark = `end ${randomUUID()}`
    const { body } = await this.#send(
      { ...statement, sql: `${statement.sql} FORMAT CustomSeparated` },
      { ...frameSettings(mark), ...(this.side === 'source' ? { readonly: 2 } : {}) },
    )
    const scanner = new RowScanner(fields, mark, take)
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        scanner.push(chunk)
        yield chunk.length
      }
      scanner.finish()
    } finally {
      body.destroy()
    }
  }

  async #send(
    { sql, params = {}, settings = {}, rows }: Statement,
    more: Record<string, string | number>,
  ): Promise<StreamAnswer> {
    const { egress, signal, target, timeoutSeconds, hurry } = this.#options
    const url = new URL(`${originOf(target)}/`)
    const limit = timeoutSeconds === 0 ? {} : { max_execution_time: timeoutSeconds }
    for (const [name, value] of Object.entries({ database: target.database, ...limit, ...more, ...settings }))
      url.searchParams.set(name, String(value))
    for (const [name, value] of Object.entries(params)) url.searchParams.set(`param_${name}`, value)
    const answer = await egress.stream(url, {
      method: 'POST',
      headers: {
        authorization: `Basic ${Buffer.from(`${target.user}:${target.password}`).toString('base64')}`,
        'content-type': 'text/plain; charset=utf-8',
      },
      body: rows === undefined ? sql : Buffer.concat([Buffer.from(`${sql}\n`), rows]),
      signal,
      maxRedirects: 0,
      silenceMs: timeoutSeconds === 0 ? SILENCE_MS : (timeoutSeconds + 60) * 1000,
      ...(hurry ? { timeoutMs: CHECK_MS } : {}),
    })
    if (answer.status !== 200) throw await this.#readFailure(answer)
    return answer
  }

  async #readFailure(answer: StreamAnswer): Promise<Error> {
    const text = await readText(answer.body, ERROR_BYTES)
    const exception = findException(text)
    if (exception !== null) return exception
    const number = Number(headerOf(answer, 'x-clickhouse-exception-code') ?? Number.NaN)
    if (Number.isInteger(number)) return new ServerError(number, text || 'no message')
    const { status } = answer
    const where = describeTarget(this.target)
    if (/Port \d+ is for clickhouse/i.test(text))
      return new ConnectorError(
        'config',
        `${where} is not the HTTP interface but the native one; give the port of the HTTP interface (8443 with TLS, 8123 without)`,
      )
    if (status === 401 || status === 403)
      return new ConnectorError('auth', `${where} answered ${status}: check \`user\` and \`password\``)
    if (status === 429) return new ConnectorError('rate_limited', `${where} answered 429; try again later`)
    if (status >= 502 && status <= 504)
      return new ConnectorError(this.side, `${where} is not available at the moment (status ${status})`, {
        transient: true,
      })
    return new ConnectorError(
      'config',
      `${where} answered with status ${status}, but not as ClickHouse does; check \`host\`, \`port\` (8443 with TLS, 8123 without) and \`secure\``,
    )
  }

  /** A failure as an error of the contract. */
  explain(error: unknown): unknown {
    const { signal } = this.#options
    if (signal.aborted) return signal.reason
    const where = describeTarget(this.target)
    if (error instanceof CutAnswer)
      return new ConnectorError(this.side, `${where}: ${error.message}; the connection or the server was lost`, {
        transient: true,
        cause: error,
      })
    if (error instanceof ForeignAnswer)
      return new ConnectorError(
        'config',
        `${where}: ${error.message}; check \`host\`, \`port\` (8443 with TLS, 8123 without) and \`secure\``,
        { cause: error },
      )
    return explainFailure(error, this.side, where)
  }
}

async function drain(body: Readable): Promise<void> {
  const text = await readText(body, ERROR_BYTES)
  // With its result held back until the end, a statement fails with a status; a proxy may still have sent it earlier.
  const exception = findException(text)
  if (exception !== null) throw exception
}

async function readText(body: Readable, limit: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > limit) break
  }
  body.destroy()
  return Buffer.concat(chunks).toString('utf8', 0, limit)
}

/** A field as ClickHouse escapes it. */
export function readField(field: string): string | null {
  return unescapeField(field.replaceAll(/\\(.)/gs, (found, letter: string) => (letter === '0' ? '\0' : found)))
}
