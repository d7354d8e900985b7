import assert from 'node:assert/strict'

/** Collects everything that attempts and checks logged, so that a suite can prove that it contains no secret. */
export interface Said {
  add(text: string): void
  addError(error: unknown): void
  assertNoSecret(secrets: readonly string[]): void
}

export function createSaid(): Said {
  const texts: string[] = []
  return {
    add: (text) => void texts.push(text),
    addError(error) {
      for (let at = error, depth = 0; at instanceof Error && depth < 10; at = at.cause, depth++) {
        texts.push(`${at.name} ${at.message} ${at.stack} ${JSON.stringify({ ...at })}`)
      }
    },
    assertNoSecret(secrets) {
      for (const secret of secrets) {
        for (const form of [secret, encodeURIComponent(secret), Buffer.from(secret).toString('base64')]) {
          const found = texts.find((text) => text.includes(form))
          assert.equal(found, undefined, 'a secret was said')
        }
      }
    },
  }
}
