/** Reports everything wrong with an input in one answer: a sentence per fault, each beginning with its path. */
import { AppError } from '../errors.ts'

const MAX_FAULTS = 10

export const refuse = (faults: readonly string[]): AppError =>
  new AppError('invalid_input', faults.slice(0, MAX_FAULTS).join('\n'))
