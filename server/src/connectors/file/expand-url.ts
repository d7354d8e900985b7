/**
 * Braces in an address: `{a,b}` stands for one of several texts, `{01..12}` for the numbers between two, with leading zeros as
 * written. A web server cannot list its files, so this is as near to a glob as it gets. How many addresses there are is known
 * before the first is made, and limited.
 */
import { ConnectorError } from '../contract.ts'

export const MOST_URLS = 1000
const GROUP = /\{([^{}]*)\}/
const RANGE = /^(\d{1,9})\.\.(\d{1,9})$/

/** All addresses, the last group varying fastest. */
export function expandUrl(pattern: string): string[] {
  if (!/[{}]/.test(pattern)) return [pattern]
  // A group there could send credentials to several hosts at once.
  if (/[{}]/.test(pattern.replace(/^(https?:\/\/[^/?#]*).*$/s, '$1')))
    throw refuse(pattern, 'braces are only allowed after the host')
  const pieces = pattern.split(GROUP)
  const choices = pieces.map((piece, at) => (at % 2 === 0 ? [checkPlain(pattern, piece)] : readGroup(pattern, piece)))
  const count = choices.reduce((product, each) => product * each.length, 1)
  if (count > MOST_URLS) throw refuse(pattern, `it stands for ${count} addresses, more than ${MOST_URLS}`)
  return choices.reduce<string[]>((all, each) => all.flatMap((start) => each.map((piece) => start + piece)), [''])
}

function checkPlain(pattern: string, piece: string): string {
  if (!/[{}]/.test(piece)) return piece
  throw refuse(pattern, 'a brace has no partner, or is inside others')
}

function readGroup(pattern: string, group: string): string[] {
  const [, from, to] = RANGE.exec(group) ?? []
  if (from === undefined || to === undefined) {
    if (!group.includes(',')) throw refuse(pattern, `{${group}} is neither a list like {a,b} nor a range like {01..12}`)
    return group.split(',')
  }
  const [first, last] = [Number(from), Number(to)]
  if (last < first) throw refuse(pattern, `the range {${group}} ends before it begins`)
  if (last - first >= MOST_URLS) throw refuse(pattern, `the range {${group}} has more than ${MOST_URLS} numbers`)
  return Array.from({ length: last - first + 1 }, (_, at) => String(first + at).padStart(from.length, '0'))
}

function refuse(pattern: string, why: string): ConnectorError {
  // An address may hold a user and a password.
  const shown = pattern.replace(/\/\/[^/?#]*@/, '//').slice(0, 200)
  return new ConnectorError(
    'config',
    `The file settings cannot be used: in the address '${shown}' ${why}. A brace that belongs to the address is written %7B or %7D.`,
  )
}
