/**
 * The settings of every transaction: those that change how values are written, and the time-outs that make the server drop
 * a session whose owner is gone (keep-alive for a dead machine, idle-in-transaction for a stopped process, the connection
 * check for one that left in the middle of a query). SET LOCAL ends with the transaction, so a pooler hands its connection
 * on to the tenant's application as it was. Unlike set_config() it takes no snapshot, and one can still be imported.
 */
import { quoteText } from './names.ts'

export interface PinnedOptions {
  /** 0: none. */
  statementTimeoutSeconds?: number
  /** A transaction that only holds a snapshot may wait for as long as its reader needs. 0: none. Default 60. */
  idleInTransactionSeconds?: number
  /** Names in a query of the user's own are found as the role finds them; ours are always qualified. */
  keepSearchPath?: boolean
}

const defaultIdleSeconds = 60

export function pinSettingsSql(version: number, options: PinnedOptions): string {
  const settings: Record<string, string> = {
    DateStyle: 'ISO, YMD',
    IntervalStyle: 'postgres',
    TimeZone: 'UTC',
    bytea_output: 'hex',
    client_encoding: 'UTF8',
    extra_float_digits: '3',
    standard_conforming_strings: 'on',
    statement_timeout: `${options.statementTimeoutSeconds ?? 0}s`,
    lock_timeout: '0',
    // Nobody reads them, and a trigger may raise one for every row.
    client_min_messages: 'error',
    idle_in_transaction_session_timeout: `${options.idleInTransactionSeconds ?? defaultIdleSeconds}s`,
    tcp_keepalives_idle: '30',
    tcp_keepalives_interval: '10',
    tcp_keepalives_count: '3',
  }
  if (version >= 140000) settings.client_connection_check_interval = '5s'
  if (!options.keepSearchPath) settings.search_path = 'pg_catalog'
  return Object.entries(settings)
    .map(([name, value]) => `SET LOCAL ${name} = ${quoteText(value)}`)
    .join('; ')
}
