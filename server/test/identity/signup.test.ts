import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { PASSWORD, startApp } from '../harness/app.ts'

const app = await startApp({ SIGNUP: 'invited' })
const { db } = app.services

const register = (email: string) =>
  app.call('POST', '/api/auth/register', { body: { email, password: PASSWORD, name: 'A', organization_name: 'B' } })

async function invite(email: string, days: number, status = 'pending'): Promise<void> {
  const organization = await db.first<{ id: string }>(
    sql`INSERT INTO organizations (name, slug) VALUES ('Host', ${`host-${email}`}) RETURNING id`,
  )
  await db.execute(sql`
    INSERT INTO invitations (organization_id, email, role, token_hash, status, expires_at)
    VALUES (${organization!.id}, ${email}, 'member', ${Buffer.from(email)}, ${status}, now() + make_interval(days => ${days}))`)
}

test('with SIGNUP=invited only an address with a pending invitation may register', async () => {
  const refused = await register('stranger@example.com')
  assert.equal(refused.status, 403)
  assert.match(refused.body.detail, /by invitation only/)
  await invite('guest@example.com', 1)
  assert.equal((await register('Guest@example.com')).status, 201)
})

test('an invitation that expired or was cancelled opens nothing', async () => {
  await invite('late@example.com', -1)
  await invite('cancelled@example.com', 1, 'cancelled')
  assert.equal((await register('late@example.com')).status, 403)
  assert.equal((await register('cancelled@example.com')).status, 403)
})
