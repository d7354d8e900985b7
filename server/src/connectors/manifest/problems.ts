/** What is wrong with a manifest. */

/** The manifest as a whole cannot be used. */
export class ManifestError extends Error {
  readonly line: number | null
  readonly column: number | null
  constructor(message: string, at?: { line: number; column: number }) {
    super(message)
    this.line = at?.line ?? null
    this.column = at?.column ?? null
  }
}

/** A component cannot be compiled: the streams that need it do not run. */
export class Unsupported extends Error {}
