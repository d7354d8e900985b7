/** The service's log. log-lines.ts defines the format. */
import { type Logger, type LoggerOptions, pino } from 'pino'
import type { Config } from './config/config.ts'
import { describeError, writeSentences } from './log-lines.ts'

export function createLog(config: Pick<Config, 'LOG_LEVEL'>, terminal = process.stdout.isTTY === true): Logger {
  const options: LoggerOptions = {
    level: config.LOG_LEVEL,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (name) => ({ level: name }) },
    serializers: { err: describeError },
  }
  return terminal ? pino(options, writeSentences(process.stdout)) : pino(options)
}
