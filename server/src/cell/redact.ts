/** Replaces known secrets in text that people read. An encoded secret is not recognised, as documented. */
import { type Masking, maskTexts } from '../connectors/settings/masking.ts'

/** `secrets` may grow during a call, when tokens are fetched. */
export function createRedactor(
  secrets: () => readonly string[],
  maskAll: (texts: readonly string[]) => Masking = maskTexts,
): Masking {
  let known: readonly string[] = []
  let mask = maskAll(known)
  return (text) => {
    const now = secrets()
    if (now.length !== known.length || now.some((secret, index) => secret !== known[index])) {
      known = [...now]
      mask = maskAll(known)
    }
    return mask(text)
  }
}
