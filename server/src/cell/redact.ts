/** Replaces known secrets in text that people read. An encoded secret is not recognised: docs say so. */
import { MASK } from '../connectors/secrets.ts'

/** Shorter ones would mask half of every line, and protect nothing worth it. */
const SHORTEST = 4

export function createRedactor(secrets: () => Iterable<string>): (text: string) => string {
  return (text) => {
    let clean = text
    for (const secret of [...secrets()].sort((a, b) => b.length - a.length)) {
      if (secret.length >= SHORTEST) clean = clean.replaceAll(secret, MASK)
    }
    return clean
  }
}
