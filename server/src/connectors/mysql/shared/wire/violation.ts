/** A server that breaks the protocol. `verdict` completes a sentence about the server, and the message says why. */
export class Violation extends Error {
  override readonly name = 'Violation'
  readonly verdict: string
  constructor(reason: string, verdict = "does not speak MySQL's protocol") {
    super(reason)
    this.verdict = verdict
  }
}
