/**
 * Passwords: argon2id off the main thread, a few at a time. A hash takes 19 MiB and about 11 ms of a core, so without
 * the limit a burst of sign-ins would starve every other request.
 */
import { availableParallelism } from 'node:os'
import { hash, verify } from '@node-rs/argon2'
import { AppError } from '../errors.ts'

const OPTIONS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }
const MAX_LENGTH = 1000
/** Some ten seconds of work: whoever came behind them would not wait for the answer. */
const MOST_WAITING = 1000

let free = Math.max(1, availableParallelism() - 1)
const waiting: (() => void)[] = []

async function limited<T>(work: () => Promise<T>): Promise<T> {
  if (free > 0) free--
  else if (waiting.length >= MOST_WAITING)
    throw new AppError('too_many_requests', 'Too many people are signing in at this moment; try again in a while', {
      'Retry-After': '5',
    })
  else await new Promise<void>((resolve) => waiting.push(resolve))
  try {
    return await work()
  } finally {
    const next = waiting.shift()
    if (next) next()
    else free++
  }
}

export const hashPassword = (password: string): Promise<string> => limited(() => hash(password, OPTIONS))

let decoy: Promise<string> | undefined

/**
 * Takes the same time whether or not there is a hash to compare with, so an unknown address can not be told apart.
 * `before` is called when the turn to be hashed has come.
 */
export async function verifyPassword(
  storedHash: string | null,
  password: string,
  before: () => Promise<void> = async () => {},
): Promise<boolean> {
  decoy ??= hashPassword('no account has this password')
  const spare = await decoy
  return limited(async () => {
    await before()
    const matches = await verify(storedHash ?? spare, password.slice(0, MAX_LENGTH))
    return storedHash !== null && matches
  })
}

const RULES: [RegExp, string][] = [
  [/^[\s\S]{8,}$/u, 'at least 8 characters'],
  [/\p{Lu}/u, 'an uppercase letter'],
  [/\p{Ll}/u, 'a lowercase letter'],
  [/\p{Nd}/u, 'a number'],
  [/[^\p{L}\p{N}\s]/u, 'a special character'],
]

/** Throws one error that names every rule the password breaks. */
export function requireStrongPassword(password: string, field = 'password'): void {
  const missing = RULES.filter(([pattern]) => !pattern.test(password)).map(([, rule]) => rule)
  if (password.length > MAX_LENGTH) missing.push(`at most ${MAX_LENGTH} characters`)
  if (missing.length > 0) throw new AppError('invalid_input', `${field}: needs ${missing.join(', ')}`)
}
