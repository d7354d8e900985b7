/**
 * Passwords: argon2id off the main thread, a few at a time. A hash takes 19 MiB and about 11 ms of a core, so without
 * the limit a burst of requests would starve every other one.
 *
 * Signing in and registering have queues of their own, because anybody can fill the second one. Within a queue clients
 * take turns, so a flood from one address delays the others by at most one hash.
 */
import { randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { hash, verify } from '@node-rs/argon2'
import { AppError } from '../errors.ts'
import { createGate } from '../gate.ts'
import { missingIn } from './password-rules.ts'

const OPTIONS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }
const MAX_LENGTH = 1000

export interface HashQueue {
  /** Throws 429 if too many requests are waiting already. */
  run<T>(client: string, work: () => Promise<T>): Promise<T>
}

interface QueueOptions {
  what: string
  atOnce: number
  /** Hashing or waiting. */
  mostOfClient: number
  mostInAll: number
}

function createQueue({ what, atOnce, mostOfClient, mostInAll }: QueueOptions): HashQueue {
  const gate = createGate({
    total: atOnce,
    perKey: atOnce,
    waitingPerKey: mostOfClient - atOnce,
    waitingTotal: mostInAll - atOnce,
    refuse: () =>
      new AppError('too_many_requests', `Too many people are ${what} right now; try again in a few seconds`, {
        'Retry-After': '5',
      }),
  })
  return {
    async run(client, work) {
      const leave = await gate.enter(client)
      try {
        return await work()
      } finally {
        leave()
      }
    },
  }
}

/** Ten seconds of work; nobody would wait longer for the answer. */
export const signInQueue = createQueue({
  what: 'signing in',
  atOnce: Math.max(1, availableParallelism() - 1),
  mostOfClient: 500,
  mostInAll: 1000,
})

export const registerQueue = createQueue({ what: 'registering', atOnce: 1, mostOfClient: 150, mostInAll: 500 })

export const hashPassword = (queue: HashQueue, client: string, password: string): Promise<string> =>
  queue.run(client, () => hash(password, OPTIONS))

const base64 = (bytes: number) => randomBytes(bytes).toString('base64').replace(/=+$/, '')

/** Costs what every stored hash costs to verify, and nobody knows a password for it. */
const DECOY = `$argon2id$v=19$m=${OPTIONS.memoryCost},t=${OPTIONS.timeCost},p=${OPTIONS.parallelism}$${base64(16)}$${base64(32)}`

export interface Verification {
  client: string
  /** Null if there is nothing to compare with. It takes the same time, so an unknown address cannot be told apart. */
  password_hash: string | null
  password: string
  /** Called right before hashing; an error that it throws ends the verification. */
  before?: () => Promise<void>
}

export const verifyPassword = ({ client, password_hash, password, before }: Verification): Promise<boolean> =>
  signInQueue.run(client, async () => {
    await before?.()
    const matches = await verify(password_hash ?? DECOY, password.slice(0, MAX_LENGTH))
    return password_hash !== null && matches
  })

/** Throws one error that names every rule the password breaks. */
export function requireStrongPassword(password: string, field = 'password'): void {
  const missing = missingIn(password)
  if (password.length > MAX_LENGTH) missing.push(`at most ${MAX_LENGTH} characters`)
  if (missing.length > 0) throw new AppError('invalid_input', `${field}: needs ${missing.join(', ')}`)
}
