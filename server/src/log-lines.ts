/**
 * The format of the service log: JSON for machines, and one plain line for people on a terminal. An error is reduced to
 * what helps to find it, because its other fields may hold rows, connections or secrets.
 *
 * `createLineLog` writes it without pino, for the parent process of `sluice start`, which loads almost nothing.
 */
export type LevelName = 'debug' | 'info' | 'warn' | 'error' | 'fatal'
const LEVELS: readonly string[] = ['debug', 'info', 'warn', 'error', 'fatal']

type WriteLine = (fields: object, sentence: string) => void

/** The part of a logger that starting and stopping processes need; pino has it too. */
export type LineLog = Record<LevelName, WriteLine>

interface Output {
  write(text: string): unknown
}

export function createLineLog(
  least: LevelName | 'silent',
  out: Output = process.stdout,
  terminal = process.stdout.isTTY === true,
): LineLog {
  const lines = terminal ? writeSentences(out) : out
  const writer =
    (level: LevelName): WriteLine =>
    (fields, msg) => {
      if (least === 'silent' || LEVELS.indexOf(level) < LEVELS.indexOf(least)) return
      const { err, ...rest } = fields as { err?: unknown }
      const error = err === undefined ? {} : { err: describeError(err) }
      lines.write(`${JSON.stringify({ level, time: new Date().toISOString(), ...rest, ...error, msg })}\n`)
    }
  return {
    debug: writer('debug'),
    info: writer('info'),
    warn: writer('warn'),
    error: writer('error'),
    fatal: writer('fatal'),
  }
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

const MARKS: Record<string, string> = { warn: 'warning: ', error: 'error: ', fatal: 'error: ' }

/** `12:03:04 POST /api/pipelines answered 201 in 8.2 ms`: the time, the message, and the other fields of the line. */
export const writeSentences = (out: Output): { write(line: string): void } => ({
  write(line) {
    const { level, time, msg, err, ...rest } = JSON.parse(line) as Record<string, unknown> & { err?: DescribedError }
    const { sentence, left } = msg === 'request' ? describeRequest(rest) : { sentence: String(msg ?? ''), left: rest }
    const extras = Object.entries(left).map(
      ([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`,
    )
    const behind = extras.length > 0 ? ` (${extras.join(', ')})` : ''
    const trace = err ? `\n${err.stack || err.message}` : ''
    out.write(`${String(time).slice(11, 19)} ${MARKS[String(level)] ?? ''}${sentence}${behind}${trace}\n`)
  },
})

function describeRequest({ method, path, status, ms, ...left }: Record<string, unknown>) {
  return { sentence: `${method} ${path} answered ${status} in ${ms} ms`, left }
}
