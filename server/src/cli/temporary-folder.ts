import { accessSync, constants, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { OperatorError } from '../errors.ts'

/** Executors and conversions write there. Without it they would fail one by one, each with a different error. */
export function requireTemporaryFolder(): void {
  const folder = tmpdir()
  let problem: string | undefined
  try {
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    if (!statSync(folder).isDirectory()) problem = 'ENOTDIR'
  } catch (error) {
    problem = (error as NodeJS.ErrnoException).code
  }
  if (problem !== undefined)
    throw new OperatorError(
      `The folder for temporary files, ${folder}, cannot be used (${problem}); create it, or set TMPDIR to a folder that this user may write to.`,
    )
}
