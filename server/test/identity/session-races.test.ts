/** Sessions that are opened or refreshed while their member is being removed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Database, sql } from '../../src/database/database.ts'
import { login, switchOrganization } from '../../src/identity/accounts.ts'
import { refreshSession } from '../../src/identity/sessions.ts'
import { type Answer, PASSWORD, type Person, registerOrganization, registerPerson, startApp } from '../harness/app.ts'
import { untilWaitingForLocks } from '../harness/lock-waits.ts'

const app = await startApp()
const { db, tokens } = app.services
const acme = await registerOrganization(app)
const origin = { request_id: 'test', client_address: '127.0.0.1' }

async function addMember(): Promise<Person> {
  const person = await registerPerson(app)
  await db.execute(
    sql`INSERT INTO memberships (organization_id, user_id, role) VALUES (${acme.id}, ${person.id}, 'viewer')`,
  )
  return person
}

const remove = (person: Person) => app.call('DELETE', `/api/users/${person.id}`, { as: acme.owner })

/** The person is removed after the last statement of a transaction: before its commit, or waiting for it. */
function removingBeforeCommit(person: Person): { late: Database; removal: () => Promise<Answer> } {
  let removal: Promise<Answer> | undefined
  const late: Database = {
    ...db,
    transaction: (work) =>
      db.transaction(async (tx) => {
        const result = await work(tx)
        removal = remove(person)
        await Promise.race([removal, untilWaitingForLocks(db).catch(() => {})])
        return result
      }),
  }
  return { late, removal: () => removal! }
}

const openSessions = async (person: Person): Promise<number> =>
  await db
    .query(
      sql`SELECT 1 FROM sessions WHERE organization_id = ${acme.id} AND user_id = ${person.id} AND revoked_at IS NULL`,
    )
    .then((rows) => rows.length)

test('no session survives a removal that happens while it is opened by a switch', async () => {
  const person = await addMember()
  const { late, removal } = removingBeforeCommit(person)
  const actor = { ...origin, user_id: person.id, email: person.email, organization_id: acme.id, api_key_id: null }
  await switchOrganization(late, tokens, actor as Parameters<typeof switchOrganization>[2], acme.id)
  assert.equal((await removal()).status, 204)
  assert.equal(await openSessions(person), 0)
})

test('no session survives a removal that happens while it is opened by a sign-in', async () => {
  const person = await addMember()
  await db.execute(sql`UPDATE users SET last_organization_id = ${acme.id} WHERE id = ${person.id}`)
  const { late, removal } = removingBeforeCommit(person)
  await login(late, tokens, { email: person.email, password: PASSWORD }, origin)
  assert.equal((await removal()).status, 204)
  assert.equal(await openSessions(person), 0)
})

test('a refresh during a removal neither deadlocks nor keeps the session', async () => {
  const person = await addMember()
  const { body } = await app.call('POST', '/api/auth/switch', { as: person, body: { organization_id: acme.id } })
  const { late, removal } = removingBeforeCommit(person)
  const refreshed = await refreshSession(late, tokens, body.refresh_token, origin)
  assert.equal((await removal()).status, 204)
  assert.equal(await openSessions(person), 0)
  assert.equal((await app.call('GET', '/api/auth/me', { as: refreshed })).status, 401)
})

test('a switch that waits for a removal finds no organization', async () => {
  const person = await addMember()
  const switched = await db.transaction(async (tx) => {
    await tx.execute(sql`DELETE FROM memberships WHERE organization_id = ${acme.id} AND user_id = ${person.id}`)
    const answer = app.call('POST', '/api/auth/switch', { as: person, body: { organization_id: acme.id } })
    await untilWaitingForLocks(db)
    return { answer }
  })
  assert.equal((await switched.answer).status, 404)
})
