/**
 * Classifies ClickHouse failures for the engine: whether the owner must change something (config, auth) or a retry may
 * help. Messages of the server are passed on, because they name tables, columns and values; they never hold a password.
 */
import { EgressFailed, EgressRefused } from '../../../egress/policy.ts'
import { ConnectorError, type FailureKind } from '../../contract.ts'
import type { Side } from '../../http-failures.ts'

/** Codes of ClickHouse's exceptions. */
export const code = {
  unknownTable: 60,
  tableExists: 57,
  tooManyParts: 252,
  tooManyQueries: 202,
  tooLargeToDrop: 359,
  differentStructure: 122,
  badArguments: 36,
} as const

const MESSAGE_LENGTH = 1000

/** An exception of the server, whether it came as an error status or in the middle of an answer. */
export class ServerError extends Error {
  readonly code: number
  constructor(number: number, message: string) {
    super(shorten(message))
    this.name = 'ServerError'
    this.code = number
  }
}

const EXCEPTION = /Code: (\d{1,6})\. DB::Exception: ([\s\S]*)/

/** The exception in a text that the server sent; null if there is none. */
export function findException(text: string): ServerError | null {
  const [, number, message] = EXCEPTION.exec(text) ?? []
  if (number === undefined || message === undefined) return null
  return new ServerError(Number(number), message.replace(/ ?\(version [^)]*(?:\([^)]*\))?\)[\s\S]*$/, ''))
}

function shorten(text: string): string {
  const clean = text.replace(/\p{C}+/gu, ' ').trim()
  return clean.length <= MESSAGE_LENGTH ? clean : `${clean.slice(0, MESSAGE_LENGTH)}…`
}

export function codeOf(error: unknown): number | undefined {
  return error instanceof ServerError ? error.code : undefined
}

export function explainFailure(error: unknown, side: Side, where: string): unknown {
  if (error instanceof EgressRefused)
    return new ConnectorError('config', `${where} is not allowed: ${error.message}`, { cause: error })
  if (error instanceof EgressFailed) return explainEgress(error, side, where)
  if (!(error instanceof ServerError)) return error
  const { kind, transient, advice } = judge(error, side)
  const said = `${where} answered: ${error.message.replace(/\.$/, '')} (code ${error.code})`
  return new ConnectorError(kind, `${said}${advice === undefined ? '' : `. ${advice}`}`, { transient, cause: error })
}

function explainEgress(error: EgressFailed, side: Side, where: string): ConnectorError {
  if (/certificate|self.signed|TLS|SSL|wrong version number|EPROTO/i.test(error.message))
    return new ConnectorError(
      'config',
      `${where}: TLS failed: ${error.message}. Set \`secure\` to false for a port without TLS (usually 8123); the certificate of one with TLS must be from a public authority`,
      { cause: error },
    )
  const kind = error.reason === 'unknown_host' ? 'config' : side
  const { transient } = error
  return new ConnectorError(
    kind,
    `${where} cannot be reached: ${error.message}. Check \`host\`, \`port\` and \`secure\`, and that its HTTP interface is on`,
    { transient, cause: error },
  )
}

interface Judgement {
  kind: FailureKind
  transient: boolean
  advice?: string
}

const grant = 'Grant the user this privilege'
const value = 'Change the column, exclude it in config.columns, or set config.sync.schema_change to evolve'

/** What the owner has to change. */
const settled: Record<number, [FailureKind, string]> = {
  192: ['auth', 'Check `user` and `password`'],
  193: ['auth', 'Check `user` and `password`'],
  194: ['auth', 'Give the `password` of the user'],
  516: ['auth', 'Check `user` and `password`, and from which addresses the user may log in'],
  195: ['auth', 'The user may not log in from this address; allow it in the networks of the user'],
  497: ['auth', grant],
  291: ['auth', 'Grant the user access to this database'],
  164: [
    'auth',
    'The user may only read, or may not change settings. A source needs a user without readonly = 1 (readonly = 2 is enough), a destination one that may write',
  ],
  452: ['auth', 'A constraint of the user forbids a setting that is needed; relax it in the profile of the user'],
  81: ['config', 'Check the name of the database'],
  60: ['config', 'List the streams to see which tables exist'],
  47: ['config', 'Check the names of the columns'],
  16: ['config', 'Check the names of the columns'],
  62: ['config', 'Check the SQL of the query'],
  46: ['config', 'Check the SQL of the query'],
  115: ['config', 'The server is too old for this connector; it needs ClickHouse 24.3 or later'],
  48: ['config', 'The engine of the table or of its database does not support this'],
  57: ['config', 'A table of this name was made at the same time; run again'],
  344: ['config', 'The engine of the table or of its database does not support this'],
  524: [
    'config',
    'The type of a column of the sorting key cannot be changed; create the table anew with a wider type, or choose another key',
  ],
}

/** What may pass by itself, with what would make it pass. */
const passing: Record<number, string> = {
  159: 'It took too long; raise the limit for the time of a statement (max_execution_time) of the user, or `statement_timeout_seconds`',
  160: 'It would take too long; raise the limit for the time of a statement (max_execution_time) of the user',
  202: 'Too many statements run at once there; try again later, or raise max_concurrent_queries',
  203: 'Too many statements run at once there; try again later',
  209: 'The connection was too slow, or broke off',
  210: 'The connection broke off',
  241: 'It takes more memory than the server or the user may use (max_memory_usage); raise that limit, select fewer columns, or give the cursor column an index',
  242: 'The table is read-only there at the moment',
  243: 'The disk of the server is full; make room there',
  252: 'The table has too many parts, because rows arrive faster than the server merges them; wait, run less often, or partition by fewer values',
  201: 'The quota of the user is used up; wait, or raise it',
  319: 'It is not known whether the statement was executed',
  394: 'It was ended on the server',
  395: 'A condition of the query itself failed',
  999: 'Its ClickHouse Keeper is not available',
}

/** A value that its column does not take. */
const values = new Set([6, 26, 27, 32, 38, 41, 53, 69, 70, 72, 117, 131, 321, 349, 407, 467, 469, 676, 691])

function judge({ code: number, message }: ServerError, side: Side): Judgement {
  const known = settled[number]
  if (known !== undefined) return { kind: known[0], transient: false, advice: known[1] }
  if (/no space left|not enough space/i.test(message)) return { kind: side, transient: true, advice: passing[243]! }
  const advice = passing[number]
  if (advice !== undefined) return { kind: side, transient: number !== 395, advice }
  if (/not Nullable|cannot be null/i.test(message))
    return {
      kind: side,
      transient: false,
      advice: 'A record has no value for this column; correct it, or make it Nullable',
    }
  if (side === 'destination' && values.has(number)) return { kind: side, transient: false, advice: value }
  if (values.has(number) || number === 457 || number === 456)
    return { kind: 'config', transient: false, advice: 'Check the query, and the state of the pipeline' }
  return { kind: side, transient: false }
}
