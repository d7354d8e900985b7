/**
 * Classifies MySQL failures for the engine: whether the owner must change something (config, auth) or a retry may help.
 * Messages of the server are passed on, because they name tables, columns and values; they never hold a password.
 */
import { EgressFailed, EgressRefused } from '../../../egress/policy.ts'
import { ConnectorError, type FailureKind } from '../../contract.ts'
import { ServerError } from './wire/packets.ts'

/** Error numbers of MySQL and MariaDB. */
export const errno = {
  duplicateEntry: 1062,
  noSuchTable: 1146,
  unknownDatabase: 1049,
  tableExists: 1050,
  lockWaitTimeout: 1205,
  deadlock: 1213,
  duplicateKeyName: 1061,
} as const

/** Which side of a pipeline failed: the kind of every error that is neither config nor auth. */
export type Side = 'source' | 'destination'

export function errnoOf(error: unknown): number | undefined {
  return error instanceof ServerError ? error.errno : undefined
}

/** The server ended the session itself, or is going down. */
const ending = new Set([1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2006, 2013, 3169, 4031])

/** The connection is gone, and the outcome of the last statement is unknown. */
export function isLostConnection(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof ConnectorError) return false
  return error instanceof ServerError ? ending.has(error.errno) : true
}

export function explainFailure(error: unknown, side: Side, where: string): Error {
  if (error instanceof ConnectorError) return error
  if (error instanceof EgressRefused)
    return new ConnectorError('config', `${where} is not allowed: ${error.message}`, { cause: error })
  if (error instanceof EgressFailed) {
    const kind = error.reason === 'unknown_host' ? 'config' : side
    const { transient } = error
    return new ConnectorError(kind, `${where} cannot be reached: ${error.message}`, { transient, cause: error })
  }
  if (error instanceof ServerError) return explainServerError(error, side, where)
  return explainOther(error as Error, side, where)
}

interface Judgement {
  kind: FailureKind
  transient: boolean
  advice?: string
}

function explainServerError(error: ServerError, side: Side, where: string): ConnectorError {
  const { kind, transient, advice } = judge(error, side)
  const said = `${where} answered: ${error.message.replace(/\.$/, '')} (error ${error.errno})`
  return new ConnectorError(kind, `${said}${advice === undefined ? '' : `. ${advice}`}`, { transient, cause: error })
}

const auth = (advice: string): Omit<Judgement, 'transient'> => ({ kind: 'auth', advice })
const config = (advice?: string): Omit<Judgement, 'transient'> => ({
  kind: 'config',
  ...(advice === undefined ? {} : { advice }),
})

const grant = 'Grant the user this privilege'
const full = 'The disk or the table space of the server is full; make room there'
const value = 'Change the column, or set config.sync.schema_change to evolve'

const keyless =
  'The server demands a primary key for every table; use config.sync.write upsert, create the table with one yourself, or switch that setting off'

const verdicts: Record<number, Omit<Judgement, 'transient'>> = {
  1044: auth('Check the name of the database, and grant the user rights on it'),
  1045: auth('Check user and password, and from which hosts the user may log in'),
  1130: auth('The server does not let this machine log in; create the user for this host'),
  1129: auth('Run FLUSH HOSTS on the server after mending the cause'),
  1251: auth('Give the user mysql_native_password or caching_sha2_password'),
  1698: auth('The user may only log in from the machine of the server; give it a password'),
  1820: auth('Set a new password for the user'),
  1862: auth('Set a new password for the user'),
  3118: auth('Unlock the user'),
  3159: config('The server demands TLS; set `tls.mode` to require or verify-full'),
  4151: auth('Unlock the user'),
  1142: auth(grant),
  1143: auth(grant),
  1227: auth(grant),
  1370: auth(grant),
  1345: auth(grant),
  1049: config('Check the name of the database'),
  1146: config('List the streams to see which tables exist'),
  1290: config('Give the address of a server that accepts writes'),
  1836: config('Give the address of a server that accepts writes'),
  3948: config('Set local_infile = ON on the server'),
  4166: config('Set local_infile = ON on the server'),
  1173: config(keyless),
  3750: config(keyless),
  1153: config('Raise max_allowed_packet on the server'),
}

const advices: Record<number, string> = {
  1021: full,
  1114: full,
  1026: full,
  1037: 'The server is out of memory',
  1041: 'The server is out of memory',
  1040: 'Raise max_connections, or close sessions',
  1203: 'Raise max_user_connections for the user, or close sessions',
  1226: 'Raise the limit of the user, or wait',
  1205: 'Another session holds a lock; end long transactions on the table',
  1317: 'It was ended on the server',
  1969: 'It exceeded the statement timeout',
  3024: 'It exceeded the statement timeout',
  1062: 'Remove the duplicate, or choose another config.sync.primary_key',
  1048: value,
  1264: value,
  1265: value,
  1292: value,
  1366: value,
  1406: value,
  1451: 'Rows of another table refer to it',
  1452: 'A row refers to one of another table that does not exist',
}

const passing = new Set([
  ...ending,
  1020,
  1021,
  1026,
  1030,
  1037,
  1040,
  1041,
  1114,
  1203,
  1205,
  1213,
  1226,
  1317,
  1412,
  1969,
  3024,
])

/** 28 is ENOSPC and 135 a full table space; errors of several numbers carry them. */
const isFull = (message: string): boolean => /\berr(no|or|code):? (28|135)\b|no space left/i.test(message)

function judge({ errno: number, message }: ServerError, side: Side): Judgement {
  if (isFull(message)) return { kind: side, transient: true, advice: full }
  const verdict = verdicts[number]
  if (verdict !== undefined) return { ...verdict, transient: false }
  const advice = advices[number]
  // Syntax errors and missing objects: caused by the settings or the stream name.
  const ours = [1054, 1064, 1067, 1109, 1110, 1060, 1118, 1071, 1170, 1305, 1356].includes(number)
  return { kind: ours ? 'config' : side, transient: passing.has(number), ...(advice === undefined ? {} : { advice }) }
}

function explainOther(error: Error, side: Side, where: string): Error {
  const code = String((error as { code?: unknown }).code ?? '')
  if (/certificate|self.signed|TLS|SSL/i.test(`${code} ${error.message}`))
    return new ConnectorError('config', `${where}: TLS negotiation failed: ${error.message}. Check \`tls\``, {
      cause: error,
    })
  if (/^(ECONNRESET|EPIPE|ETIMEDOUT|ENOTCONN)$/.test(code) || /closed|ended|reset/i.test(error.message))
    return new ConnectorError(side, `${where}: the connection was lost`, { transient: true, cause: error })
  // Not an error of the connection but one of ours, which is already clear.
  return error
}
