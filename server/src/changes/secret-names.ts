/**
 * The names of the variables that an export puts in the place of secrets: `SHOP_PASSWORD` for the password of the
 * connection `Shop`. The same organization always gets the same names. Where two would be equal, both get a hash of what
 * they belong to.
 */
import { createHash } from 'node:crypto'

export interface SecretPlace {
  /** Tells it apart from all others. */
  identity: readonly string[]
  /** What the name is made of. */
  words: readonly string[]
}

const LONGEST = 80
/** The settings of the client itself must never be taken for a secret of a connection. */
const RESERVED = /^SLUICE_/

export function nameSecrets(places: readonly SecretPlace[]): string[] {
  const plain = places.map(({ words }) => spell(words))
  const uses = new Map<string, number>()
  for (const name of plain) uses.set(name, (uses.get(name) ?? 0) + 1)
  return plain.map((name, index) => (uses.get(name) === 1 ? name : `${name}_${hash(places[index]!.identity)}`))
}

function spell(words: readonly string[]): string {
  const text = words
    .join('_')
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^A-Za-z0-9]+/g, '_')
    .replace(/^_+|_+$/g, '')
    .toUpperCase()
    .slice(0, LONGEST)
  return /^[A-Z]/.test(text) && !RESERVED.test(text) ? text : `SECRET_${text}`
}

const hash = (identity: readonly string[]): string =>
  createHash('sha256').update(JSON.stringify(identity)).digest('hex').slice(0, 8).toUpperCase()
