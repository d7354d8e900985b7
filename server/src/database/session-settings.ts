/**
 * `options` of DATABASE_URL: settings for each session, as `-c name=value` or `--name=value`. They are not sent when a
 * connection is opened, because poolers drop or refuse `options`, but set right after with our own, over which they win.
 * What Sluice relies on cannot be changed.
 */
import { OperatorError } from '../errors.ts'

/** Results and guarantees depend on these, or they have a limit of ours on the client's side too. */
const OURS = new Set([
  'timezone',
  'datestyle',
  'client_encoding',
  'standard_conforming_strings',
  'default_transaction_isolation',
  'statement_timeout',
  'lock_timeout',
  'idle_in_transaction_session_timeout',
])

export interface SessionSettings {
  settings: Record<string, string>
  /** What is no setting, such as `endpoint=…` of some providers; sent as it is. */
  rest: string
}

export function readOptions(options: string): SessionSettings {
  const words = splitWords(options)
  const settings: Record<string, string> = {}
  const rest: string[] = []
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    const given =
      word === '-c' ? (words.shift() ?? '') : /^(?:-c|--)(?=.)/.test(word) ? word.replace(/^(-c|--)/, '') : null
    if (given === null) {
      rest.push(word)
      continue
    }
    const [, name, value] = /^([A-Za-z_][\w.-]*)=(.*)$/s.exec(given) ?? []
    if (name === undefined)
      throw new OperatorError(`DATABASE_URL: options has -c ${JSON.stringify(given)}; write -c name=value.`)
    const key = name.toLowerCase().replaceAll('-', '_')
    if (OURS.has(key))
      throw new OperatorError(`DATABASE_URL: options sets ${key}, which Sluice sets itself; remove it from options.`)
    settings[key] = value!
  }
  return { settings, rest: rest.map((word) => word.replace(/[\\\s]/g, '\\$&')).join(' ') }
}

/** As PostgreSQL does it: separated by white space, and a backslash keeps the character after it. */
function splitWords(text: string): string[] {
  const words: string[] = []
  for (const [word] of text.matchAll(/(?:\\.|[^\s\\])+/gs)) words.push(word.replace(/\\(.)/gs, '$1'))
  return words
}
