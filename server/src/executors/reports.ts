/**
 * Validates what an executor reports. An executor handles the bytes of tenants and of the servers they name: a
 * compromised one must not be able to claim the blobs of another run, to send a value that the database rejects and so
 * leave the run without an end, or to crash its worker.
 */

import { isOwnPart, type RunIdentity } from '../blobs/run-keys.ts'
import { isPossible } from '../blobs/seek-table.ts'
import { isKeptToken, isSettingPath } from '../connectors/authentication/refresh-tokens.ts'
import type { Column } from '../connectors/contract.ts'
import { isColumnType } from '../connectors/types/column-types.ts'
import type { Counts, Output, Part } from '../engine/job.ts'
import { findStateFault, UNSTORABLE } from '../engine/state-limits.ts'
import { LONGEST_MESSAGE } from './answers.ts'
import type { FromExecutor } from './messages.ts'

const MAX_PARTS = 100_000
const MAX_COLUMNS = 10_000
const ERROR_CHARACTERS = 4000
const LONGEST_TOKEN = 256 * 1024
const EXTENSION = /^[a-z0-9]{1,10}(\.gz)?$/
const CONTENT_TYPE = /^[a-z]+\/[a-z0-9.+-]{1,60}$/
const LEVELS = ['debug', 'info', 'warn', 'error']

/** What is invalid in a message, or null. */
export function findReportFault(run: RunIdentity, message: FromExecutor): string | null {
  switch (message.type) {
    case 'ready':
      return null
    case 'log':
      return message.entries.every(([level, text]) => LEVELS.includes(level) && typeof text === 'string')
        ? null
        : 'a line of the log'
    case 'progress':
      return findCountFault(message.counts)
    case 'schema':
      return isTexts(message.changes) && message.columns.every(isColumn) ? null : 'the columns'
    case 'checkpoint': {
      const { checkpoint, parts, quarantine = [], cursor } = message.checkpoint
      if (!isCount(checkpoint)) return 'the number of a checkpoint'
      return (
        findCountFault(message.checkpoint) ??
        findPartFault(run, parts) ??
        findPartFault(run, quarantine) ??
        findStateFault(cursor)
      )
    }
    case 'refresh_begin':
    case 'refresh_end':
      return hasTokens(message) ? null : 'a refresh token'
    case 'success': {
      const { output, quarantine = [], cursor } = message.outcome
      return (
        findCountFault(message.outcome) ??
        (output && findOutputFault(run, output)) ??
        findPartFault(run, quarantine) ??
        findStateFault(cursor)
      )
    }
    case 'failure':
      return typeof message.kind === 'string' && typeof message.message === 'string' ? null : 'a failure'
    default:
      return 'a message of an unknown kind'
  }
}

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0
const isColumn = ({ name, type, nullable, native }: Column): boolean =>
  isTexts([name, type]) &&
  isColumnType(type) &&
  (nullable === undefined || typeof nullable === 'boolean') &&
  (native === undefined || isTexts([native.system, native.type]))
const isTexts = (values: unknown[]): boolean => values.every((value) => typeof value === 'string')

/** Whether a question about a refresh token holds tokens and paths where it should. */
export function hasTokens(question: object): boolean {
  const { type, held, path, used, rotated, kept } = question as Record<string, unknown>
  if (type === 'refresh_begin') return isToken(held) && (path === undefined || isSettingPath(path))
  if (type !== 'refresh_end' || !isToken(used) || (rotated !== null && !isToken(rotated))) return false
  return kept === undefined || isKeptToken(kept, isToken)
}

/** As in the standard: printable ASCII. What the user gave is compared unchanged. */
const isToken = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && value.length <= LONGEST_TOKEN && !UNSTORABLE.test(JSON.stringify(value))

const findCountFault = ({ records_read, records_written, bytes_written }: Counts): string | null =>
  [records_read, records_written, bytes_written].every(isCount) ? null : 'a count'

function findPartFault(run: RunIdentity, parts: readonly Part[]): string | null {
  if (parts.length > MAX_PARTS) return 'the number of parts'
  const own = parts.every(
    ({ key, size, records, checkpoint }) => isOwnPart(run, key) && [size, records, checkpoint].every(isCount),
  )
  if (!own) return 'a part that is not of this run'
  return parts.every(hasPossibleSizes) ? null : 'the stored size of a part'
}

function hasPossibleSizes({ key, size, stored_bytes }: Part): boolean {
  if (stored_bytes === undefined) return !key.endsWith('.zst')
  return key.endsWith('.zst') && isCount(stored_bytes) && isPossible(size, stored_bytes)
}

function findOutputFault(run: RunIdentity, output: Output): string | null {
  const { parts, size, extension, content_type, columns = [] } = output
  if (!EXTENSION.test(extension) || !CONTENT_TYPE.test(content_type)) return 'the kind of its output'
  if (columns.length > MAX_COLUMNS || !columns.every(isColumn) || UNSTORABLE.test(JSON.stringify(columns)))
    return 'the columns of its output'
  const sum = parts.reduce((total, part) => total + part.size, 0)
  return findPartFault(run, parts) ?? (sum === size ? null : 'the size of its output')
}

/**
 * An error as an executor reports it. Not yet shortened for display: secrets are redacted first, and one that was cut
 * in two would not be found.
 */
export const cutMessage = (message: string): string => message.slice(0, LONGEST_MESSAGE).toWellFormed()

/**
 * An error as it is stored and listed: short enough for a list, and without characters that the database cannot store.
 */
export function trimError(error: string): string {
  const clean = error.slice(0, ERROR_CHARACTERS).replaceAll('\0', '\\0').toWellFormed()
  return error.length > ERROR_CHARACTERS ? `${clean}… (${error.length - ERROR_CHARACTERS} more characters)` : clean
}
