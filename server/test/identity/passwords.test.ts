import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../../src/errors.ts'
import { hashPassword, registerQueue, signInQueue, verifyPassword } from '../../src/identity/passwords.ts'

const PASSWORD = 'Correct-horse-1'
const isBusy = (error: unknown) => error instanceof AppError && error.code === 'too_many_requests'

/** As many registrations at once as a flood from many addresses brings. */
const floodRegistrations = () =>
  Promise.allSettled(
    Array.from({ length: 1500 }, (_, index) => hashPassword(registerQueue, `client ${index}`, PASSWORD)),
  )

test('a flood of registrations does not prevent sign-ins, neither during it nor afterwards', async () => {
  const stored = await hashPassword(signInQueue, 'me', PASSWORD)
  const signIn = (password_hash: string | null) => verifyPassword({ client: 'me', password_hash, password: PASSWORD })
  const flood = floodRegistrations()
  assert.deepEqual([await signIn(stored), await signIn(null)], [true, false])
  const outcomes = await flood
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
  assert.ok(refused.length > 900, `${refused.length} were refused`)
  assert.ok(refused.every(({ reason }) => isBusy(reason)))
  assert.deepEqual([await signIn(stored), await signIn(null)], [true, false])
})

test('a flood from one client is refused and leaves room for others', async () => {
  const flood = Promise.allSettled(
    Array.from({ length: 600 }, () => hashPassword(registerQueue, 'one client', PASSWORD)),
  )
  const [other] = await Promise.all([hashPassword(registerQueue, 'another client', PASSWORD), flood])
  assert.match(other, /^\$argon2id\$/)
  const refused = (await flood).filter((outcome) => outcome.status === 'rejected')
  assert.ok(refused.length >= 400 && refused.every(({ reason }) => isBusy(reason)), `${refused.length} were refused`)
})

test('a sign-in that is refused right before hashing frees its slot', async () => {
  const refuse = async () => {
    throw new Error('refused')
  }
  const attempts = Array.from({ length: 20 }, () =>
    verifyPassword({ client: 'me', password_hash: null, password: PASSWORD, before: refuse }),
  )
  for (const attempt of attempts) await assert.rejects(attempt, /refused/)
  assert.equal(await verifyPassword({ client: 'me', password_hash: null, password: PASSWORD }), false)
})
