/**
 * Classifies PostgreSQL failures for the engine: whether the owner must change something (config, auth) or a retry may
 * help. Messages of the server are passed on, because they name tables, columns and values; they never hold a password.
 * The driver's messages are rewritten.
 */

import { EgressFailed, EgressRefused } from '../../../egress/policy.ts'
import { ConnectorError, type FailureKind } from '../../contract.ts'

export const sqlState = {
  uniqueViolation: '23505',
  foreignKeyViolation: '23503',
  notNullViolation: '23502',
  undefinedTable: '42P01',
  undefinedFunction: '42883',
  insufficientPrivilege: '42501',
  lockNotAvailable: '55P03',
  deadlock: '40P01',
  queryCanceled: '57014',
} as const

/** Which side of a pipeline failed: the kind of every error that is neither config nor auth. */
export type Side = 'source' | 'destination'

interface ServerError {
  code?: string
  message: string
  detail?: string
  where?: string
  severity?: string
}

export function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : undefined
}

function isServerError(error: unknown): boolean {
  return typeof (error as { severity?: unknown } | null)?.severity === 'string'
}

/** The connection is gone, and the outcome of the last statement is unknown. */
export function isLostConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (isServerError(error)) return /^(08|57P0)/.test(codeOf(error) ?? '')
  return !(error instanceof ConnectorError)
}

export function explainFailure(error: unknown, side: Side, where: string): Error {
  if (error instanceof ConnectorError) return error
  if (error instanceof EgressRefused) {
    return new ConnectorError('config', `${where} is not allowed: ${error.message}`, { cause: error })
  }
  if (error instanceof EgressFailed) {
    const kind = error.reason === 'unknown_host' ? 'config' : side
    const { transient } = error
    return new ConnectorError(kind, `${where} cannot be reached: ${error.message}`, { transient, cause: error })
  }
  if (isServerError(error)) return explainServerError(error as ServerError, side, where)
  return explainDriverError(error as Error, side, where)
}

function explainServerError(error: ServerError, side: Side, where: string): ConnectorError {
  const code = error.code ?? ''
  const { kind, transient, advice } = judge(code, side)
  const column = /, column ([^:]+)/.exec(error.where ?? '')?.[1]
  const parts = [error.message, error.detail, column && `column ${column}`].filter(Boolean).join('; ')
  return new ConnectorError(kind, `${where} answered: ${parts} (SQLSTATE ${code})${advice ? `. ${advice}` : ''}`, {
    transient,
    cause: error,
  })
}

function judge(code: string, side: Side): { kind: FailureKind; transient: boolean; advice?: string } {
  if (code.startsWith('28')) return { kind: 'auth', transient: false, advice: 'Check user, password and pg_hba.conf' }
  if (code === '3D000') return { kind: 'config', transient: false, advice: 'Check the name of the database' }
  if (code === sqlState.insufficientPrivilege)
    return { kind: 'auth', transient: false, advice: 'Grant the role this privilege' }
  if (code === sqlState.queryCanceled)
    return {
      kind: side,
      transient: true,
      advice: 'It exceeded the statement timeout, or it was cancelled on the server',
    }
  // Syntax errors and missing objects: caused by the settings or the stream name.
  if (code.startsWith('42') || code.startsWith('3F') || code === '0A000') return { kind: 'config', transient: false }
  const transient = /^(08|40|53|55|57|58|XX)/.test(code)
  return { kind: side, transient }
}

function explainDriverError(error: Error, side: Side, where: string): Error {
  const code = codeOf(error) ?? ''
  if (/certificate|self.signed|TLS|SSL/i.test(`${code} ${error.message}`)) {
    return new ConnectorError('config', `${where} TLS negotiation failed: ${error.message}. Check \`tls\``, {
      cause: error,
    })
  }
  if (/^SASL|SCRAM/.test(error.message)) {
    return new ConnectorError('auth', `${where} refused the password. Check user and password`, { cause: error })
  }
  const lost =
    code === 'ECONNRESET' ||
    code === 'EPIPE' ||
    code === 'ETIMEDOUT' ||
    /terminated|timeout|closed|ended|not queryable/i.test(error.message)
  if (lost) return new ConnectorError(side, `${where}: the connection was lost`, { transient: true, cause: error })
  // Not an error of the driver but one of ours, which is already clear.
  return error
}
