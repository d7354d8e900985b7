/**
 * The service's log: JSON lines for machines, and on a terminal one plain line for people. An error is reduced to what
 * helps to find it: its other fields may hold rows, connections or secrets.
 */
import { type DestinationStream, type Logger, pino } from 'pino'
import type { Config } from './config/config.ts'

export function createLog(config: Pick<Config, 'LOG_LEVEL'>, terminal = process.stdout.isTTY === true): Logger {
  const options = {
    level: config.LOG_LEVEL,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    serializers: { err: describeError },
  }
  return terminal ? pino(options, writeSentences(process.stdout)) : pino(options)
}

interface DescribedError {
  type: string
  message: string
  stack: string
  code?: string
  cause?: DescribedError
}

export function describeError(error: unknown): DescribedError {
  if (!(error instanceof Error)) return { type: typeof error, message: String(error), stack: '' }
  const { code } = error as { code?: unknown }
  return {
    type: error.name,
    message: error.message,
    stack: error.stack ?? '',
    ...(typeof code === 'string' && { code }),
    ...(error.cause !== undefined && { cause: describeError(error.cause) }),
  }
}

const MARKS: Record<number, string> = { 20: '', 30: '', 40: 'warning: ', 50: 'error: ', 60: 'error: ' }

/** `12:03:04 POST /api/pipelines answered 201 in 8.2 ms`: the time, what happened, and what else the line carries. */
export const writeSentences = (out: { write(text: string): unknown }): DestinationStream => ({
  write(line) {
    const { level, time, msg, err, ...rest } = JSON.parse(line) as Record<string, unknown> & { err?: DescribedError }
    const { sentence, left } = msg === 'request' ? describeRequest(rest) : { sentence: String(msg ?? ''), left: rest }
    const extras = Object.entries(left).map(
      ([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`,
    )
    const behind = extras.length > 0 ? ` (${extras.join(', ')})` : ''
    const trace = err ? `\n${err.stack || err.message}` : ''
    out.write(`${String(time).slice(11, 19)} ${MARKS[Number(level)] ?? ''}${sentence}${behind}${trace}\n`)
  },
})

function describeRequest({ method, path, status, ms, ...left }: Record<string, unknown>) {
  return { sentence: `${method} ${path} answered ${status} in ${ms} ms`, left }
}
